//! How runs reach the outcomes of changes of operators, roles and tokens.

use ledger::{
    AdminOutcome, Change, CreateToken, Digest, LogIndex, OperatorRole, OperatorTokenId,
    RecordAudit, RemoveRole, RevokeToken, SetOperator, SetPassword, SetRole, SetSecondFactor,
    Stamp,
};

use super::{By, Reach, Reached, Situation};

const TOO_SHORT: &str = "a run is too short to fill the table";

impl Reach for SetRole {
    const REACHED: Reached = &[
        (AdminOutcome::RegistryFull, By::Nothing(TOO_SHORT)),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for RemoveRole {
    const REACHED: Reached = &[
        (AdminOutcome::RoleNotFound, By::Chance),
        (AdminOutcome::RoleInUse, By::Aim(begin_and_end_an_operator)),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for SetOperator {
    const REACHED: Reached = &[
        (AdminOutcome::RegistryFull, By::Nothing(TOO_SHORT)),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for CreateToken {
    const REACHED: Reached = &[
        (AdminOutcome::OperatorNotFound, By::Chance),
        (AdminOutcome::TokenExists, By::Chance),
        (AdminOutcome::RegistryFull, By::Nothing(TOO_SHORT)),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for RevokeToken {
    const REACHED: Reached =
        &[(AdminOutcome::TokenNotFound, By::Chance), (AdminOutcome::Accepted, By::Chance)];
}

impl Reach for RecordAudit {
    const REACHED: Reached = &[(AdminOutcome::Accepted, By::Aim(refuse_a_request))];
}

impl Reach for SetPassword {
    const REACHED: Reached =
        &[(AdminOutcome::OperatorNotFound, By::Chance), (AdminOutcome::Accepted, By::Chance)];
}

impl Reach for SetSecondFactor {
    const REACHED: Reached =
        &[(AdminOutcome::OperatorNotFound, By::Chance), (AdminOutcome::Accepted, By::Chance)];
}

fn refuse_a_request(_: &mut Situation<'_>) -> Vec<Change> {
    let refused = RecordAudit {
        method: "POST".to_owned(),
        path: "/participants".to_owned(),
        status: 401,
        code: 3000,
        detail: "invalid bearer token".to_owned(),
        requests: 2,
        record: LogIndex(0),
    };
    vec![refused.into()]
}

/// Adds a role, an operator and a token, changes them and removes what can be removed. The changes
/// about an unknown operator come first.
fn begin_and_end_an_operator(situation: &mut Situation<'_>) -> Vec<Change> {
    let random = &mut situation.outcome_workload.random;
    let operator = || "anna".to_owned();
    let role = || "treasury".to_owned();
    let id = OperatorTokenId(random.next());
    let token = |operator| CreateToken {
        id,
        operator,
        roles: Vec::new(),
        hash: Digest([7; 32]),
        description: String::new(),
        expires: Stamp(u64::MAX >> 2),
    };
    let password = |operator| SetPassword { operator, hash: "hash".to_owned() };
    let second_factor = |operator| SetSecondFactor { operator, secret: vec![1, 2, 3] };
    let permissions = vec!["finance".to_owned()];
    let set = |roles, active| SetOperator { name: operator(), roles, active };
    let ghost = || "ghost".to_owned();
    vec![
        token(ghost()).into(),
        password(ghost()).into(),
        second_factor(ghost()).into(),
        RemoveRole { name: ghost() }.into(),
        RevokeToken { id }.into(),
        SetRole { role: OperatorRole { name: role(), permissions } }.into(),
        set(vec![role()], true).into(),
        token(operator()).into(),
        token(operator()).into(),
        password(operator()).into(),
        second_factor(operator()).into(),
        RemoveRole { name: role() }.into(),
        RevokeToken { id }.into(),
        set(Vec::new(), false).into(),
        RemoveRole { name: role() }.into(),
    ]
}
