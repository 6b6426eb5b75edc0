//! Rotation of keys and erasure, with a power cut in every operation of the disk.

use ledger::ErasureForm;
use simulation::crash_rotation_and_erasure;

#[test]
fn a_power_cut_in_any_operation_leaves_contents_whole_or_erased_as_ordered() {
    for (seed, encrypted, form) in [
        (1, false, ErasureForm::Before),
        (2, true, ErasureForm::Before),
        (3, false, ErasureForm::Participant),
        (4, true, ErasureForm::Participant),
    ] {
        let counts = crash_rotation_and_erasure(seed, encrypted, form);
        println!("seed {seed}, encrypted {encrypted}, {form:?}: {counts:?}");
        assert!(100 < counts.power_cuts, "{counts:?}");
        assert!(0 < counts.half_erased && 0 < counts.waited && 0 < counts.erased, "{counts:?}");
        assert_eq!(encrypted, 0 < counts.half_rotated, "{counts:?}");
        let has_own_keys = encrypted && form == ErasureForm::Participant;
        assert_eq!(has_own_keys, 0 < counts.destroyed, "{counts:?}");
    }
}
