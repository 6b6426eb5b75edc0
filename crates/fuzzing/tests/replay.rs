//! Every target over its seeds and over mutations of them: the same ones each time.

use std::fs;
use std::path::Path;

use fuzzing::TARGETS;
use fuzzing::mutation::{Random, mutate};

/// Mutations of all seeds of one target together.
const MUTATIONS: usize = 400;

fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let entries = fs::read_dir(&root).expect("every target has a directory of seeds");
    let mut seeds: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            (path.display().to_string(), fs::read(&path).expect("a seed"))
        })
        .collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "{target} has no seeds");
    seeds
}

#[test]
fn seeds_and_mutations_of_them_hold() {
    for (number, target) in TARGETS.iter().enumerate() {
        let seeds = seeds(target.name);
        for (path, seed) in &seeds {
            println!("{}: {path}", target.name);
            (target.run)(seed);
        }
        let mut random = Random::new(number as u64);
        for turn in 0..MUTATIONS {
            let (_, seed) = &seeds[turn % seeds.len()];
            let (_, other) = &seeds[(turn / seeds.len()) % seeds.len()];
            let input = mutate(&mut random, seed, other);
            println!("{}: {:?}", target.name, String::from_utf8_lossy(&input));
            (target.run)(&input);
        }
    }
}

#[test]
fn every_target_is_a_program_for_cargo_fuzz() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the manifest");
    for target in TARGETS {
        let program = root.join("fuzz_targets").join(format!("{}.rs", target.name));
        assert!(program.exists(), "{} is missing", program.display());
        let line = format!("name = \"{}\"", target.name);
        assert!(manifest.contains(&line), "fuzz/Cargo.toml has no {line}");
    }
}
