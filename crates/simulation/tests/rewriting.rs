//! Rotation of keys and erasure, with a power cut in every operation of the disk.

use simulation::crash_rotation_and_erasure;

#[test]
fn a_power_cut_in_any_operation_leaves_contents_whole_or_erased_as_ordered() {
    for (seed, encrypted) in [(1, false), (2, true)] {
        let counts = crash_rotation_and_erasure(seed, encrypted);
        println!("seed {seed}, encrypted {encrypted}: {counts:?}");
        assert!(100 < counts.power_cuts, "{counts:?}");
        assert!(0 < counts.half_erased && 0 < counts.waited && 0 < counts.erased, "{counts:?}");
        assert_eq!(encrypted, 0 < counts.half_rotated, "{counts:?}");
    }
}
