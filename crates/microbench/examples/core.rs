//! The measurements of `upesi-bench core` without the switch, for a quick build while the core is
//! being changed. `cargo run --profile dist -p microbench --example core -- --only durable`

use clap::Parser;

/// The allocator of the switch.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: microbench::CoreOptions,
}

fn main() -> Result<(), microbench::Error> {
    let report = microbench::run(&Arguments::parse().options, &mut |_| {})?;
    print!("{}", waterfall::text::fields(&report, &[]));
    Ok(())
}
