// Reads files of rules as Prometheus does: names, expressions, templates.
package main

import (
	"fmt"
	"os"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
)

func main() {
	bad := false
	for _, path := range os.Args[1:] {
		groups, errors := rulefmt.ParseFile(path, false, model.UTF8Validation)
		for _, err := range errors {
			fmt.Fprintln(os.Stderr, err)
			bad = true
		}
		if !bad {
			for _, group := range groups.Groups {
				fmt.Printf("%s: %s: %d rules\n", path, group.Name, len(group.Rules))
			}
		}
	}
	if bad || len(os.Args) < 2 {
		os.Exit(1)
	}
}
