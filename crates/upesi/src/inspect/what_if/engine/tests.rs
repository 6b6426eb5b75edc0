//! A period computed by hand, and properties of random histories.

use ledger::{
    AccountKind, Configure, CreateHubAccount, CreateParticipant, Genesis, Redeliver,
    SetInitialPositionAndLimits, SetLimit, Settings,
};

use super::*;

/// Fulfilment of the transfers of the tests.
const PREIMAGE: [u8; 32] = [7; 32];
const DFSPS: [&str; 3] = ["alpha", "beta", "gamma"];

/// The log's own state, and the engines that follow it.
struct Scene {
    state: State,
    at_ms: u64,
    sequence: u64,
    engines: Vec<WhatIf>,
}

impl Scene {
    /// Three DFSPs with cover of 200 and a cap of 100.
    fn new() -> Self {
        let mut scene = Self { state: State::new(), at_ms: 0, sequence: 0, engines: Vec::new() };
        scene.decide(&Command::Genesis(Genesis { seed: [1; 16], hub: name("Hub") }));
        for kind in [AccountKind::HubReconciliation, AccountKind::HubMultilateralSettlement] {
            scene.change(Change::CreateHubAccount(CreateHubAccount { currency: usd(), kind }));
        }
        for (at, dfsp) in DFSPS.into_iter().enumerate() {
            let (name, currency) = (name(dfsp), usd());
            scene.change(Change::CreateParticipant(CreateParticipant { name, currency }));
            let (net_debit_cap, position) = (units(100), units(0));
            scene.change(Change::SetInitialPositionAndLimits(SetInitialPositionAndLimits {
                name,
                currency,
                net_debit_cap,
                position,
            }));
            scene.funds(900 + at, dfsp, FundsDirection::In, 200);
        }
        scene
    }

    fn follow_with(&mut self, overrides: &[Override]) {
        let next = LogIndex(self.state.log_index().0 + 1);
        let from = PeriodBound::Record(next);
        self.engines.push(WhatIf::new(overrides.to_vec(), from, None));
    }

    fn change(&mut self, change: Change) -> Outcome {
        let (actor, reason) = ("tester".to_owned(), String::new());
        self.decide(&Command::Administer(Box::new(Administer { actor, reason, change })))
    }

    fn funds(
        &mut self,
        number: usize,
        dfsp: &str,
        direction: FundsDirection,
        amount: i128,
    ) -> Outcome {
        self.change(Change::MoveFunds(MoveFunds {
            id: id(number),
            name: name(dfsp),
            account: settlement(dfsp),
            direction,
            currency: usd(),
            amount: units(amount),
            hash: Digest([0; 32]),
        }))
    }

    fn end_funds(&mut self, number: usize, dfsp: &str, commit: bool) -> Outcome {
        let (id, name, account) = (id(number), name(dfsp), settlement(dfsp));
        self.change(Change::EndFundsOut(EndFundsOut {
            id,
            name,
            account,
            commit,
            hash: Digest([1; 32]),
        }))
    }

    fn set_cap(&mut self, dfsp: &str, whole: i128) {
        let (name, currency) = (name(dfsp), usd());
        let (net_debit_cap, alarm_percentage) = (units(whole), units(10));
        self.change(Change::SetLimit(SetLimit { name, currency, net_debit_cap, alarm_percentage }));
    }

    /// Decides a command in its own batch, 1 ms later.
    fn decide(&mut self, command: &Command) -> Outcome {
        self.at_ms += 1;
        self.sequence += 1;
        let batch = Batch {
            first: LogIndex(self.state.log_index().0 + 1),
            stamp: Stamp::from_millis(self.at_ms),
            node: 0,
            epoch: 1,
            sequence: self.sequence,
        };
        let mut effects = Effects::default();
        let engines = &mut self.engines;
        let mut watch = |step: ApplyStep<'_>, state: &State, effects: &Effects| {
            engines.iter_mut().for_each(|one| one.watch(step, state, effects));
        };
        self.state.apply_watched(&batch, [command], &mut effects, &mut watch);
        effects.outcomes[0]
    }

    /// Prepares a transfer that expires in 100 ms.
    fn prepare(&mut self, number: usize, route: (&str, &str), amount: i128) -> Outcome {
        self.prepare_for(100, (number, route, amount))
    }

    /// Prepares a transfer that expires in `ms`; its own batch is stamped in 1 ms.
    fn prepare_for(
        &mut self,
        ms: u64,
        (number, route, amount): (usize, (&str, &str), i128),
    ) -> Outcome {
        let mut hash = Digest::default();
        hash.0[0] = number as u8;
        let prepare = Prepare {
            id: id(number),
            source: name(route.0),
            payer: name(route.0),
            payee: name(route.1),
            currency: usd(),
            amount: units(amount),
            condition: sha2::Sha256::digest(PREIMAGE).into(),
            expiration_ms: self.at_ms + ms,
            hash,
            trace: [0; 16],
            fee_rule: None,
            quote_terms: None,
        };
        self.decide(&Command::Prepare(Box::new(prepare)))
    }

    fn fulfil(&mut self, number: usize, payee: &str) -> Outcome {
        self.decide(&Command::Fulfil(Box::new(Fulfil {
            id: id(number),
            source: name(payee),
            destination: None,
            state: FulfilState::Committed,
            fulfilment: Fulfilment::Present(PREIMAGE),
            hash: Digest::default(),
            trace: [0; 16],
        })))
    }

    fn abort(&mut self, number: usize, payee: &str) -> Outcome {
        self.decide(&Command::Abort(Box::new(Abort {
            id: id(number),
            source: name(payee),
            destination: None,
            code_is_known: true,
            hash: Digest::default(),
            trace: [0; 16],
        })))
    }

    fn wait(&mut self, ms: u64) {
        self.at_ms += ms;
        self.decide(&Command::Tick);
    }

    fn row(&self, dfsp: &str) -> ByCopy<Totals> {
        let (index, _) = self.state.registry().find(&name(dfsp)).expect("it was made");
        self.engines[0].rows[&(index, usd())]
    }
}

fn name(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

/// Five accounts of the hub come first, then two of each participant.
fn settlement(dfsp: &str) -> AccountId {
    let at = DFSPS.iter().position(|one| *one == dfsp).expect("one of the three");
    AccountId(7 + 2 * at as u32)
}

fn usd() -> Currency {
    Currency::parse("USD").expect("a currency")
}

fn id(number: usize) -> TransferId {
    TransferId::parse(&format!("00000000-0000-4000-8000-{number:012x}")).expect("an id")
}

fn units(whole: i128) -> Amount {
    Amount::from_units(whole * 10_000)
}

fn cap(dfsp: &str, whole: i128) -> Override {
    Override { name: name(dfsp), currency: usd(), effect: OverrideEffect::Cap(units(whole)) }
}

fn cover(dfsp: &str, whole: i128) -> Override {
    Override { name: name(dfsp), currency: usd(), effect: OverrideEffect::Cover(units(whole)) }
}

/// Count and value, in whole units.
fn whole_units(total: CountAndValue) -> (u64, i128) {
    (total.count, total.value.units() / 10_000)
}

#[track_caller]
fn check(totals: Totals, refused: [(u64, i128); 3], numbers: (i128, i128)) {
    let counts = [totals.refused, totals.appear, totals.vanish].map(whole_units);
    assert_eq!(counts, refused, "{totals:?}");
    let whole = |amount: Option<Amount>| amount.expect("it was observed").units() / 10_000;
    assert_eq!((whole(totals.highest), whole(totals.headroom)), numbers, "{totals:?}");
}

#[test]
fn lower_cap_by_hand() {
    let mut scene = Scene::new();
    scene.follow_with(&[cap("alpha", 50)]);
    let route = ("alpha", "beta");
    // The log has a cap of 100. The assumed cap of 50 refuses this transfer,
    assert_eq!(scene.prepare(1, route, 60), Outcome::PrepareReserved);
    // but not this one.
    assert_eq!(scene.prepare(2, route, 50), Outcome::PrepareCapExceeded);
    assert_eq!(scene.fulfil(1, "beta"), Outcome::Committed);
    // The log is at 60, two copies at 50, and at 0 the one with aborts.
    assert_eq!(scene.prepare(3, route, 30), Outcome::PrepareReserved);
    assert_eq!(scene.fulfil(3, "beta"), Outcome::Committed);
    // The second transfer expires in the copy that did not commit it.
    scene.wait(200);
    // The log is at 90, the copies at 50, 0 and 30.
    assert_eq!(scene.prepare(4, route, 20), Outcome::PrepareCapExceeded);

    let ByCopy { log, all_commit, none_commit, given_back } = scene.row("alpha");
    check(log, [(2, 70), (0, 0), (0, 0)], (90, 10));
    check(all_commit, [(3, 110), (2, 90), (1, 50)], (50, 0));
    check(none_commit, [(2, 90), (2, 90), (2, 70)], (50, 0));
    check(given_back, [(1, 60), (1, 60), (2, 70)], (50, 0));
    let transfer = |record: Option<TransferRecord>| record.map(|record| record.transfer);
    assert_eq!(transfer(all_commit.refused.first), Some(id(1)));
    assert_eq!(transfer(all_commit.refused.last), Some(id(4)));
    let differing: Vec<_> =
        scene.engines[0].differing.iter().map(|one| one.record.transfer).collect();
    assert_eq!(differing, [1, 2, 3, 4].map(id));
    // Beta received 40 less in one copy, and nothing in the other.
    let beta = scene.row("beta");
    assert_eq!([beta.log, beta.all_commit].map(|totals| totals.refused.count), [0, 0]);
}

/// A transfer that is aborted at once does not use liquidity until its deadline.
#[test]
fn aborted_transfer_leaves_its_liquidity_to_others() {
    let mut scene = Scene::new();
    scene.follow_with(&[cap("alpha", 150), cover("alpha", 100)]);
    assert_eq!(scene.prepare(1, ("alpha", "beta"), 110), Outcome::PrepareCapExceeded);
    assert_eq!(scene.prepare(2, ("alpha", "beta"), 60), Outcome::PrepareReserved);
    let ByCopy { log, all_commit, none_commit, given_back } = scene.row("alpha");
    check(log, [(1, 110), (0, 0), (0, 0)], (60, 40));
    check(all_commit, [(1, 60), (1, 60), (1, 110)], (110, 40));
    check(none_commit, [(1, 60), (1, 60), (1, 110)], (110, 40));
    check(given_back, [(0, 0), (0, 0), (1, 110)], (110, 40));
}

/// The position includes a transfer that expired within its own decision.
#[test]
fn position_of_expired_on_arrival_is_observed() {
    let mut scene = Scene::new();
    scene.follow_with(&[cap("alpha", 70)]);
    let route = ("alpha", "beta");
    assert_eq!(scene.prepare(1, route, 30), Outcome::PrepareReserved);
    assert_eq!(scene.prepare_for(1, (2, route, 60)), Outcome::PrepareReserved);
    assert_eq!(scene.prepare_for(1, (3, route, 35)), Outcome::PrepareReserved);
    let ByCopy { log, all_commit, none_commit, given_back } = scene.row("alpha");
    check(log, [(0, 0); 3], (90, 10));
    for totals in [all_commit, none_commit, given_back] {
        check(totals, [(1, 60), (1, 60), (0, 0)], (65, 5));
    }
}

/// A copy that owes a payee fewer notices than the log has room in a lane that was full in the log.
#[test]
fn refusal_for_a_full_lane_stays() {
    let mut scene = Scene::new();
    let lane_of = |lane_capacity| Settings { lane_capacity, ..Settings::default() };
    scene.change(Change::Configure(Configure { settings: lane_of(2) }));
    scene.follow_with(&[cap("alpha", 70)]);
    assert_eq!(scene.prepare(1, ("alpha", "beta"), 60), Outcome::PrepareReserved);
    assert_eq!(scene.prepare(2, ("alpha", "beta"), 30), Outcome::PrepareReserved);
    assert_eq!(scene.prepare(3, ("gamma", "beta"), 50), Outcome::PreparePayeeLaneFull);
    let at_once = (5, ("gamma", "beta"), 20);
    assert_eq!(scene.prepare_for(1, at_once), Outcome::PreparePayeeLaneFull);
    scene.change(Change::Configure(Configure { settings: lane_of(9) }));
    assert_eq!(scene.prepare(3, ("gamma", "beta"), 50), Outcome::PrepareResentAborted);
    assert_eq!(scene.prepare(4, ("gamma", "beta"), 90), Outcome::PrepareReserved);
    let ByCopy { log, all_commit, none_commit, given_back } = scene.row("gamma");
    for totals in [log, all_commit, none_commit, given_back] {
        check(totals, [(0, 0); 3], (90, 10));
    }
    let alpha = scene.row("alpha");
    for totals in [alpha.all_commit, alpha.none_commit, alpha.given_back] {
        check(totals, [(1, 30), (1, 30), (0, 0)], (60, 10));
    }
    assert_eq!(scene.engines[0].differing.len(), 1);
}

#[test]
fn changed_cover_by_hand() {
    // The cap of 100 stays; cover is 200.
    for (more, expected, highest) in [(-150, [(1, 40), (1, 40), (0, 0)], 40), (50, [(0, 0); 3], 80)]
    {
        let mut scene = Scene::new();
        scene.follow_with(&[cover("alpha", more)]);
        assert_eq!(scene.prepare(1, ("alpha", "beta"), 40), Outcome::PrepareReserved);
        assert_eq!(scene.prepare(2, ("alpha", "beta"), 40), Outcome::PrepareReserved);
        let ByCopy { none_commit, all_commit, given_back, .. } = scene.row("alpha");
        let left = (200 + more).min(100) - highest;
        check(none_commit, expected, (highest, left));
        check(all_commit, expected, (highest, left));
        check(given_back, expected, (highest, left));
    }
}

/// The movements of funds that change a cover use ids that no transfer can have.
#[test]
fn assumed_movements_take_no_transfer_id() {
    let mut scene = Scene::new();
    scene.follow_with(&[cover("alpha", 50), cover("beta", 50), cover("gamma", -50)]);
    for number in 0..6 {
        assert_eq!(scene.prepare(number, ("alpha", "beta"), 1), Outcome::PrepareReserved);
    }
    let ids = [0, 1, 2].map(|at| unused_id(at).to_string());
    assert!(ids.iter().all(|id| TransferId::parse(id).is_none()), "{ids:?}");
    assert!(scene.engines[0].differing.is_empty(), "more cover refuses nothing");
}

#[test]
fn impossible_change_is_reported() {
    let mut scene = Scene::new();
    for (change, expected) in [
        (cap("omega", 1), "no such account"),
        (cover("alpha", -201), "cannot be reduced"),
        (cover("omega", 1), "no such account"),
    ] {
        scene.engines.clear();
        scene.follow_with(&[change]);
        scene.wait(1);
        let fault = scene.engines[0].fault.clone().expect("it is impossible");
        assert!(fault.contains(expected), "{fault}");
    }
}

/// A later change of the cap in the log does not replace the assumed cap.
#[test]
fn assumed_cap_stays() {
    let mut scene = Scene::new();
    scene.follow_with(&[cap("alpha", 50)]);
    scene.set_cap("alpha", 10);
    assert_eq!(scene.prepare(1, ("alpha", "beta"), 40), Outcome::PrepareCapExceeded);
    assert_eq!(scene.engines[0].overridden, 1);
    assert_eq!(whole_units(scene.row("alpha").none_commit.vanish), (1, 40));
}

/// The log's cap refuses a transfer that the assumed cap accepts. If that raises the position, a
/// later withdrawal is refused, and its amount covers a transfer that the log refused.
#[test]
fn withdrawal_only_in_the_log_is_reported_with_the_transfers_it_covers() {
    let mut scene = Scene::new();
    let route = ("alpha", "beta");
    scene.funds(910, "alpha", FundsDirection::In, 300);
    scene.set_cap("alpha", 250);
    scene.prepare(1, route, 200);
    scene.fulfil(1, "beta");
    scene.follow_with(&[cap("alpha", 1_000)]);
    assert_eq!(scene.prepare(2, route, 100), Outcome::PrepareCapExceeded);
    assert_eq!(scene.prepare(3, route, 50), Outcome::PrepareReserved);
    assert_eq!(scene.fulfil(3, "beta"), Outcome::Committed);
    scene.set_cap("alpha", 1_000);
    // The log and the copy with aborts are at 250, with a cover of 500. The others are at 350 and
    // have 150 left.
    assert_eq!(scene.funds(911, "alpha", FundsDirection::Out, 200), Outcome::Accepted);
    let reserved_at = scene.state.log_index();
    assert_eq!(scene.end_funds(911, "alpha", true), Outcome::Accepted);
    // 350 of 300, in the others 450 of 500.
    assert_eq!(scene.prepare(4, route, 100), Outcome::PrepareLiquidityInsufficient);

    let ByCopy { log, all_commit, none_commit, given_back } = scene.row("alpha");
    check(log, [(2, 200), (0, 0), (0, 0)], (250, 0));
    check(all_commit, [(0, 0), (0, 0), (2, 200)], (450, 50));
    check(none_commit, [(0, 0), (0, 0), (2, 200)], (450, 50));
    check(given_back, [(1, 100), (0, 0), (1, 100)], (300, 50));
    check_withdrawals(log, (0, 0), (0, 0), 0);
    check_withdrawals(all_commit, (1, 200), (1, 100), 200);
    check_withdrawals(none_commit, (1, 200), (1, 100), 200);
    check_withdrawals(given_back, (0, 0), (0, 0), 0);
    let [one] = &scene.engines[0].funds_differing[..] else { panic!("a single movement") };
    assert_eq!((one.record.log_index, one.record.transfer), (reserved_at, id(911)));
    assert_eq!((one.participant, one.amount), (name("alpha"), units(200)));
    assert_eq!(
        (one.statuses.log, one.statuses.given_back),
        (FundsStatus::Withdrawn, FundsStatus::Withdrawn)
    );
    assert_eq!(
        (one.statuses.all_commit, one.statuses.none_commit),
        (FundsStatus::Refused, FundsStatus::Refused)
    );
    assert_eq!(one.differs(), [true, true, false]);
}

#[track_caller]
fn check_withdrawals(totals: Totals, refused: (u64, i128), covered: (u64, i128), kept: i128) {
    assert_eq!(whole_units(totals.withdrawals_refused), refused, "{totals:?}");
    assert_eq!(whole_units(totals.so_covered), covered, "{totals:?}");
    assert_eq!(totals.not_withdrawn, units(kept), "{totals:?}");
}

/// Once the log aborts a withdrawal, its amount is part of the cover everywhere.
#[test]
fn aborted_withdrawal_makes_a_difference_until_then() {
    let mut scene = Scene::new();
    scene.follow_with(&[cover("alpha", -150)]);
    assert_eq!(scene.funds(911, "alpha", FundsDirection::Out, 100), Outcome::Accepted);
    check_withdrawals(scene.row("alpha").all_commit, (1, 100), (0, 0), 100);
    scene.end_funds(911, "alpha", false);
    check_withdrawals(scene.row("alpha").all_commit, (1, 100), (0, 0), 0);
    let [one] = &scene.engines[0].funds_differing[..] else { panic!("a single movement") };
    assert_eq!(
        (one.statuses.log, one.statuses.none_commit),
        (FundsStatus::CalledOff, FundsStatus::Refused)
    );
}

/// With more cover, a withdrawal that the log refused is accepted, and so is its end.
#[test]
fn withdrawal_only_in_the_copies_lowers_their_cover() {
    let mut scene = Scene::new();
    scene.follow_with(&[cover("alpha", 100)]);
    assert_eq!(scene.funds(911, "alpha", FundsDirection::Out, 250), Outcome::FundsInsufficient);
    let status = |scene: &Scene| {
        let [one] = &scene.engines[0].funds_differing[..] else { panic!("a single movement") };
        one.statuses.all().map(|one| *one)
    };
    let [refused, reserved, withdrawn] =
        [FundsStatus::Refused, FundsStatus::Reserved, FundsStatus::Withdrawn];
    assert_eq!(status(&scene), [refused, reserved, reserved, reserved]);
    assert_eq!(scene.end_funds(911, "alpha", true), Outcome::FundsOutNotReserved);
    assert_eq!(status(&scene), [refused, withdrawn, withdrawn, withdrawn]);
    let ByCopy { log, all_commit, .. } = scene.row("alpha");
    check_withdrawals(log, (1, 250), (0, 0), 0);
    check_withdrawals(all_commit, (0, 0), (0, 0), -250);
}

/// The cover of a copy differs from the log's exactly by the reported movements.
#[test]
fn covers_differ_by_the_reported_movements() {
    let mut reported = 0;
    for seed in 0..60 {
        let (mut scene, mut random) = (Scene::new(), Random(seed));
        scene.follow_with(&[cap("alpha", 30), cap("beta", 1_000), cover("gamma", 80)]);
        play_with_funds(&mut scene, &mut random);
        let funds = &scene.engines[0].funds_differing;
        for dfsp in DFSPS {
            let whole = |status, amount: Amount| match status {
                FundsStatus::Reserved | FundsStatus::Withdrawn => amount.units() / 10_000,
                FundsStatus::Deposited | FundsStatus::Refused | FundsStatus::CalledOff => 0,
            };
            let own = funds.iter().filter(|one| one.participant == name(dfsp));
            let expected = own.fold([0; 3], |sum, one| {
                let in_log = whole(one.statuses.log, one.amount);
                let kept = one.statuses.copies().map(|it| in_log - whole(*it, one.amount));
                [0, 1, 2].map(|at| sum[at] + kept[at])
            });
            let ByCopy { all_commit, none_commit, given_back, .. } = scene.row(dfsp);
            let kept = [all_commit, none_commit, given_back]
                .map(|totals| totals.not_withdrawn.units() / 10_000);
            assert_eq!(kept, expected, "seed {seed}: {dfsp}, {funds:?}");
        }
        let mut ids: Vec<_> = funds.iter().map(|one| one.record.transfer).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), funds.len(), "each one once");
        reported += funds.len();
    }
    assert!(50 < reported, "the histories come near the covers: {reported}");
}

/// A generator of histories, deterministic for a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

/// Decides up to 60 transfers of 1 to 60 among the three. They are answered, resent or left to
/// expire; their notices are delivered, given up or resent.
fn play(scene: &mut Scene, random: &mut Random) {
    (0..150).for_each(|_| play_step(scene, random));
}

fn play_step(scene: &mut Scene, random: &mut Random) {
    let number = random.below(60);
    let (payer, payee) = (DFSPS[number % 3], DFSPS[(number + 1) % 3]);
    match random.below(10) {
        0..=4 => drop(scene.prepare(number, (payer, payee), 1 + number as i128)),
        5 | 6 => drop(scene.fulfil(number, payee)),
        7 => drop(scene.abort(number, payee)),
        8 => deliver(scene, random),
        _ => scene.wait(random.below(60) as u64),
    }
}

/// Adds withdrawals of 1 to 120, ended or not, and deposits.
fn play_with_funds(scene: &mut Scene, random: &mut Random) {
    for at in 0..150 {
        play_step(scene, random);
        let (number, dfsp) = (1_000 + at, DFSPS[random.below(3)]);
        let amount = 1 + random.below(120) as i128;
        match random.below(12) {
            0 => drop(scene.funds(number, dfsp, FundsDirection::Out, amount)),
            1 => drop(scene.funds(number, dfsp, FundsDirection::In, amount)),
            2..=7 => {
                let begun = 1_000 + random.below(at + 1);
                let commit = random.below(3) < 2;
                for dfsp in DFSPS {
                    scene.end_funds(begun, dfsp, commit);
                }
            }
            _ => {}
        }
    }
}

fn deliver(scene: &mut Scene, random: &mut Random) {
    let dead = scene.state.dead_letters().next().map(|letter| letter.notice.id);
    if let Some(notice) = dead.filter(|_| random.below(2) == 0) {
        scene.change(Change::Redeliver(Redeliver { notice }));
        return;
    }
    let mut owed: Vec<_> = scene.state.notices_owed().map(|notice| notice.id).collect();
    owed.sort_unstable();
    let results = [DeliveryResult::Delivered, DeliveryResult::Dead, DeliveryResult::Delivered];
    let end = |notice| {
        let result = results[random.below(3)];
        FinishedDelivery { notice, result, attempts: 1, status: 200, finished_ms: 1 }
    };
    let ends = owed.into_iter().take(8).map(end).collect();
    scene.decide(&Command::FinishDeliveries(ends));
}

#[test]
fn copies_without_a_change_equal_the_log() {
    for seed in 0..60 {
        let (mut scene, mut random) = (Scene::new(), Random(seed));
        play(&mut scene, &mut random);
        // One without a change, and one that sets the present caps.
        scene.follow_with(&[]);
        scene.follow_with(&[cap("alpha", 100), cap("beta", 100)]);
        play_with_funds(&mut scene, &mut random);
        assert!(scene.engines[0].is_the_same(&scene.state), "seed {seed}");
        for one in &scene.engines {
            assert!(one.differing.is_empty(), "seed {seed}: {:?}", one.differing);
            assert!(one.funds_differing.is_empty(), "seed {seed}: {:?}", one.funds_differing);
            for row in one.rows.values() {
                let copies = row.copies();
                assert_eq!(copies, [&row.log; 3], "seed {seed}");
            }
        }
    }
}

/// The first different decision is of the assumed kind. Later ones follow from it and can go either
/// way: the next transfer may use the liquidity of a refused one.
#[test]
fn first_difference_is_of_the_assumed_kind() {
    let mut differing = 0;
    for seed in 0..60 {
        let (mut scene, mut random) = (Scene::new(), Random(seed));
        scene.follow_with(&[cap("beta", 40)]);
        scene.follow_with(&[cap("beta", 160), cover("beta", 100)]);
        scene.follow_with(&DFSPS.map(|dfsp| cap(dfsp, 1_000_000)));
        scene.engines[2].overrides.extend(DFSPS.map(|dfsp| cover(dfsp, 1_000_000)));
        play(&mut scene, &mut random);
        let reserved = Outcome::PrepareReserved;
        let [less, more, all] = &scene.engines[..] else { panic!("three engines") };
        if let Some(first) = less.differing.first() {
            assert_eq!((first.payer, first.outcomes.log), (name("beta"), reserved), "seed {seed}");
            assert_eq!(first.outcomes.all_commit, Outcome::PrepareCapExceeded, "seed {seed}");
        }
        if let Some(first) = more.differing.first() {
            let outcomes = first.outcomes.copies().map(|one| *one);
            assert_eq!((first.payer, outcomes), (name("beta"), [reserved; 3]), "{seed}");
        }
        for row in all.rows.values() {
            let copies = row.copies();
            assert_eq!(copies.map(|totals| totals.refused.count), [0; 3]);
            assert_eq!(row.all_commit.vanish.count, row.log.refused.count, "seed {seed}");
        }
        differing += less.differing.len() + more.differing.len() + all.differing.len();
    }
    assert!(100 < differing, "the histories come near the caps: {differing}");
}

/// If all transfers have equal amounts, one direction and commit, a lower cap only adds refusals.
#[test]
fn lower_cap_only_adds_refusals_if_all_commit() {
    for lower in [0, 5, 35, 99] {
        let mut scene = Scene::new();
        scene.follow_with(&[cap("alpha", lower)]);
        for number in 0..20 {
            scene.prepare(number, ("alpha", "beta"), 10);
            scene.fulfil(number, "beta");
        }
        let ByCopy { log, none_commit, .. } = scene.row("alpha");
        assert_eq!((log.refused.count, none_commit.vanish.count), (10, 0), "{lower}");
        assert_eq!(none_commit.refused.count, 20 - lower.unsigned_abs() as u64 / 10, "{lower}");
    }
}
