use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;

use ledger::{
    Administer, ApproveProposal, AssignParties, Change, Command, FspName, PartyChangeForm,
    ProposalId, Propose, RegisterParties,
};

use super::*;

fn key() -> PartyKey {
    PartyKey::of_seed(&[7; 16])
}

fn party(id: &str, sub_id: Option<&str>) -> PartyBinding {
    PartyBinding {
        id_type: "MSISDN".into(),
        id: id.into(),
        sub_id: sub_id.map(Into::into),
        currency: None,
        fsp: FspName::new("dfsp1").expect("a name"),
    }
}

fn command(change: Change) -> Command {
    let (actor, reason) = ("operator:anna".into(), String::new());
    Command::Administer(Box::new(Administer { actor, reason, change }))
}

/// All changes that name parties.
fn changes() -> Vec<Change> {
    let parties = vec![party("+254700000001", None), party("254700000002", Some("till"))];
    let register = Change::from(RegisterParties { parties: parties.clone() });
    let form = PartyChangeForm::Batch;
    let assign = Change::from(AssignParties { form, parties, former: Vec::new() });
    let propose = Propose {
        by: "anna".into(),
        reason: String::new(),
        request: String::new(),
        seconds: 1,
        change: Arc::new(assign.clone()),
    };
    let approve = ApproveProposal {
        proposal: ProposalId(1),
        by: "bert".into(),
        reason: String::new(),
        change: Arc::new(register.clone()),
    };
    vec![register, assign, propose.into(), approve.into()]
}

#[test]
fn all_changes_are_concealed_and_revealed() {
    for change in changes() {
        let clear = command(change);
        let mut concealed = clear.clone();
        let names = key().conceal(concealed.named_parties_mut()).expect("there are names");
        let mut fields = Vec::new();
        crate::command::write_fields(&concealed, &mut fields);
        let shown = format!("{concealed:?}");
        assert!(!shown.contains("2547") && !shown.contains("till"), "{shown}");
        assert!(!fields.windows(4).any(|bytes| bytes == b"2547"));
        let mut again = concealed.clone();
        assert_eq!(key().conceal(again.named_parties_mut()), None, "hashes stay");
        assert_eq!(again, concealed);
        let stored = names.to_bytes();
        assert!(!stored.contains(&0), "a frame counts its zeros");
        let read = PartyNames::read(&stored).expect("it was written");
        assert_eq!(read, names);
        read.reveal(concealed.named_parties_mut());
        assert_eq!(concealed, clear);
    }
}

#[test]
fn names_that_are_missing_stay_hashes() {
    let mut clear = command(changes().remove(0));
    let _names = key().conceal(clear.named_parties_mut()).expect("there are names");
    let concealed = clear.clone();
    PartyNames::default().reveal(clear.named_parties_mut());
    assert_eq!(clear, concealed, "another number of entries");
    clear.named_parties_mut()[0].id = "254700000009".into();
    let names = key().conceal(clear.named_parties_mut()).expect("one is in clear");
    let of_second = PartyTexts::default();
    assert_eq!((names.0[0].id.as_deref(), &names.0[1]), (Some("254700000009"), &of_second));
    names.reveal(clear.named_parties_mut());
    let found = clear.named_parties();
    assert_eq!((&*found[0].id, &found[1]), ("254700000009", &concealed.named_parties()[1]));
}

#[test]
fn rows_of_hashes_and_of_identifiers_are_the_same() {
    let key = key();
    let id = key.hashed_id("MSISDN", "+254700000001");
    let sub_id = key.hashed_sub_id("MSISDN", "254700000001", "till");
    assert_eq!(id, key.hashed_id("MSISDN", "254700000001"));
    for (clear, hashed) in [(None, None), (Some("till"), Some(&*sub_id))] {
        let row = key.row_key("MSISDN", "254700000001", clear);
        assert_eq!(row, key.row_key("MSISDN", &id, hashed));
    }
    let others = [
        key.hashed_id("ALIAS", "254700000001"),
        key.hashed_id("MSISDN", "254700000002"),
        key.hashed_sub_id("MSISDN", "254700000002", "till"),
        PartyKey::of_seed(&[8; 16]).hashed_id("MSISDN", "254700000001"),
    ];
    assert!(!others.contains(&id) && !others.contains(&sub_id));
    assert_eq!(format!("{key:?}"), "PartyKey", "a key is not shown");
}

#[test]
fn hashes_are_fixed() {
    let key = key();
    let known = [
        key.hashed_id("MSISDN", "254700000001"),
        key.hashed_sub_id("MSISDN", "254700000001", "till"),
    ];
    let known = known.map(|text| text[1..].to_string());
    expect_test::expect![[r#"
        398bd4f53ae3a0f360d236f8444cf380
        4cd5c3798ef23d074224a772601d72eb"#]]
    .assert_eq(&known.join("\n"));
}

#[test]
fn malformed_names_are_refused() {
    let names = PartyNames(vec![PartyTexts { id: Some("ab".into()), sub_id: None }]);
    assert_eq!(names.to_bytes(), b"\x04ab\x01");
    for (bytes, error) in [
        (&b"\x04ab"[..], FieldError::Short),
        (b"\x04a", FieldError::Short),
        (b"\x00\x01", FieldError::Value),
        (b"\x03\xff\x01", FieldError::Value),
        (b"\x84\x00ab\x01", FieldError::Value),
        (b"\xff\xff\xff\x01", FieldError::Value),
        (b"\xff", FieldError::Short),
    ] {
        assert_eq!(PartyNames::read(bytes), Err(error), "{bytes:?}");
    }
}
