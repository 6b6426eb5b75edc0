#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::side_data::bundle(data));
