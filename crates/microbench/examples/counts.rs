//! Every operation once in one go, for callgrind to count: `cargo xtask counts` runs this.
//!
//! Prints one line per operation, in the order of the dumps that callgrind makes at the end of
//! each call of [`collected`]: group, number of repetitions and name, with tabs between them.

use microbench::Operation;

fn main() {
    for mut operation in microbench::operations() {
        // Once before, so that buffers have grown and tables of the standard library are made.
        operation.prepare();
        operation.perform();
        operation.prepare();
        collected(&mut operation);
        println!("{}\t{}\t{}", operation.group.name(), operation.count, operation.name);
    }
}

/// The only part whose instructions are counted: callgrind knows it by its name.
#[inline(never)]
fn collected(operation: &mut Operation) {
    operation.perform();
}
