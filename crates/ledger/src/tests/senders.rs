//! The participant to which the contents of a record belong.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::{
    AbortBulk, Administer, ApproveProposal, AssignParties, Change, ChangeParties, Command, Digest,
    ErasureForm, FormerOwner, FspName, PartyBinding, PartyChangeForm, ProposalId, Propose,
    QuoteContent, RecordQuote, RecordQuoteAnswer, RecordRequestToPay, RegisterParties, RequestStep,
    TransferId,
};

fn name(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

fn party(fsp: &str) -> PartyBinding {
    let (id_type, id) = ("MSISDN".to_string(), "1".to_string());
    PartyBinding { id_type, id, sub_id: None, currency: None, fsp: name(fsp) }
}

/// Messages of the participant `sender`.
fn messages() -> Vec<Command> {
    let id = TransferId::parse("b51ec534-ee48-4575-b6a9-000000000001").expect("an id");
    let (source, hash, trace) = (name("sender"), Digest([0; 32]), [0; 16]);
    let quote = RecordQuote {
        quote: id,
        transaction: id,
        source,
        destination: name("other"),
        expiration_ms: None,
        keep_until_ms: 0,
        hash,
        trace,
        request: None,
    };
    let content = QuoteContent::Error;
    let answer = RecordQuoteAnswer { quote: id, source, content, hash, trace };
    let step = RequestStep::Failed;
    let request = RecordRequestToPay { request: id, source, step, hash, trace };
    let (form, parties) = (PartyChangeForm::Single, vec![party("other")]);
    let change = ChangeParties { source, form, parties, trace, rule: None };
    let (destination, code_is_known) = (Some(name("other")), true);
    let bulk = AbortBulk { id: id.as_bulk(), source, destination, code_is_known, hash, trace };
    vec![
        Command::RecordQuote(Box::new(quote)),
        Command::RecordQuoteAnswer(Box::new(answer)),
        Command::RecordRequestToPay(Box::new(request)),
        Command::ChangeParties(Box::new(change)),
        Command::AbortBulk(Box::new(bulk)),
    ]
}

#[test]
fn contents_of_a_message_are_those_of_its_sender() {
    for message in messages() {
        assert_eq!(message.sender(), Some(&name("sender")), "{message:?}");
        for (participant, expected) in [("sender", true), ("SENDER", true), ("other", false)] {
            assert_eq!(message.is_from_participant(&name(participant)), expected, "{message:?}");
        }
        assert_eq!(message.contents_owner(), Some(&name("sender")), "{message:?}");
    }
    assert!(!Command::Tick.is_from_participant(&name("sender")));
}

/// An operator's change is about the FSPs of its parties, proposed, decided or approved.
#[test]
fn contents_of_operators_changes_are_those_of_the_fsps_of_the_parties() {
    let former = vec![FormerOwner { party: 0, fsp: name("former") }];
    let (form, parties) = (PartyChangeForm::Batch, vec![party("owner")]);
    let assign: Change = AssignParties { form, parties: parties.clone(), former }.into();
    let (by, reason, request) = (String::new(), String::new(), String::new());
    let change = Arc::new(assign.clone());
    let propose = Propose {
        by: by.clone(),
        reason: reason.clone(),
        request,
        seconds: 1,
        change: change.clone(),
    };
    let approve = ApproveProposal { proposal: ProposalId(1), by, reason, change };
    for (change, has_former) in [
        (assign, true),
        (propose.into(), true),
        (approve.into(), true),
        (RegisterParties { parties }.into(), false),
    ] {
        let administer = Administer { actor: String::new(), reason: String::new(), change };
        let command = Command::Administer(Box::new(administer));
        let is_from = |fsp| command.is_from_participant(&name(fsp));
        let found = ["owner", "OWNER", "former", "other"].map(is_from);
        assert_eq!(found, [true, true, has_former, false], "{command:?}");
        // Contents about parties of two FSPs belong to neither alone.
        let owner = (!has_former).then(|| name("owner"));
        assert_eq!(command.contents_owner(), owner.as_ref(), "{command:?}");
        assert_eq!(command.sender(), None);
    }
}

#[test]
fn forms_of_erasures_have_names() {
    let all = [
        ErasureForm::Transfer,
        ErasureForm::Before,
        ErasureForm::Party,
        ErasureForm::RetainedPayments,
        ErasureForm::RetainedRegistrations,
        ErasureForm::Participant,
    ];
    let expected = [
        "TRANSFER",
        "BEFORE",
        "PARTY",
        "RETAINED_PAYMENTS",
        "RETAINED_REGISTRATIONS",
        "PARTICIPANT",
    ];
    assert_eq!(all.map(ErasureForm::name), expected);
}
