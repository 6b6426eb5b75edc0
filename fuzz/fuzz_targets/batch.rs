#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::bodies::batch(data));
