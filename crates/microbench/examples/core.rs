//! What `upesi-bench core` measures, without the switch around it: quick to build while the core
//! is being worked on. `cargo run --profile dist -p microbench --example core -- --only durable`

use clap::Parser;

/// As in the switch itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: microbench::Options,
}

fn main() -> Result<(), microbench::Error> {
    let report = microbench::run(&Arguments::parse().options, &mut |_| {})?;
    print!("{}", waterfall::text::fields(&report, &[]));
    Ok(())
}
