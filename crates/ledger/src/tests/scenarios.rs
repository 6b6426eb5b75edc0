//! The scenario files, one test each. `UPDATE_EXPECT=1` rewrites them.

use expect_test::expect_file;

use super::scenario::check;

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        /// The text of every scenario file.
        pub(super) const ALL: &[&str] =
            &[$(include_str!(concat!("scenarios/", stringify!($name), ".txt"))),*];

        $(
            #[test]
            fn $name() {
                let text = include_str!(concat!("scenarios/", stringify!($name), ".txt"));
                let file = concat!("scenarios/", stringify!($name), ".txt");
                check(text, &expect_file![file]);
            }
        )*
    };
}

scenarios![
    prepare, resend, fulfil, look_up, expiry, onboarding, funds, log, settlement, liquidity, fees,
    operators, proposals, enrolments, bulks, quotes, requests, erasures,
];
