//! Runs every operation once, for callgrind: used by `cargo xtask counts`.
//!
//! Prints one tab-separated line per operation: group, number of repetitions and name. The order is
//! that of the dumps that callgrind makes at the end of each call of [`collected`].

use microbench::Operation;

fn main() {
    for mut operation in microbench::operations() {
        // A first call lets buffers grow and initializes tables of the standard library.
        operation.prepare();
        operation.perform();
        operation.prepare();
        collected(&mut operation);
        println!("{}\t{}\t{}", operation.group.name(), operation.count, operation.name);
    }
}

/// The only function whose instructions are counted. Callgrind finds it by its name.
#[inline(never)]
fn collected(operation: &mut Operation) {
    operation.perform();
}
