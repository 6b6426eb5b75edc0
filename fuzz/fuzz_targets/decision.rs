#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::side_data::decision_records(data));
