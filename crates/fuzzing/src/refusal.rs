//! Properties of every refusal.

use fspiop::Refusal;
use fspiop::body::ErrorInformation;

/// A refusal's response is valid: it has the published form, and its status matches its code.
pub(crate) fn check(refusal: &Refusal) {
    let status = refusal.status.as_u16();
    assert!((400..=599).contains(&status), "{refusal}");
    assert_ne!(status, 500, "no input makes the hub fail: {refusal}");
    let body = refusal.body();
    let read = ErrorInformation::parse(&body).expect("the hub's own bodies are sound");
    assert_eq!(read.code, refusal.code);
    assert_eq!(read.description, refusal.description, "a description is within its bound");
}
