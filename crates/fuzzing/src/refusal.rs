//! What every refusal is, wherever it comes from.

use fspiop::Refusal;
use fspiop::body::ErrorInformation;

/// A refusal's answer is sound: of the published form itself, with a status that says the same.
pub(crate) fn check(refusal: &Refusal) {
    let status = refusal.status.as_u16();
    assert!((400..=599).contains(&status), "{refusal}");
    assert_ne!(status, 500, "no input makes the hub fail: {refusal}");
    let body = refusal.body();
    let told = ErrorInformation::parse(&body).expect("the hub's own bodies are sound");
    assert_eq!(told.code, refusal.code);
    assert_eq!(told.description, refusal.description, "a description is within its bound");
}
