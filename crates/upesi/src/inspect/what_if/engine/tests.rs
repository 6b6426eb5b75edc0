//! A period computed by hand, and what holds for every history.

use ledger::{
    AccountKind, Configure, CreateHubAccount, CreateParticipant, Genesis, Redeliver,
    SetInitialPositionAndLimits, SetLimit, Settings,
};

use super::*;

/// Commits what the tests prepare.
const PREIMAGE: [u8; 32] = [7; 32];
const DFSPS: [&str; 3] = ["alpha", "beta", "gamma"];

/// The log's own state, and those who look on while it is decided.
struct World {
    state: State,
    at_ms: u64,
    sequence: u64,
    watching: Vec<WhatIf>,
}

impl World {
    /// Three DFSPs with cover of 200 and a cap of 100.
    fn new() -> Self {
        let mut world = Self { state: State::new(), at_ms: 0, sequence: 0, watching: Vec::new() };
        world.decide(&Command::Genesis(Genesis { seed: [1; 16], hub: name("Hub") }));
        for kind in [AccountKind::HubReconciliation, AccountKind::HubMultilateralSettlement] {
            world.change(Change::CreateHubAccount(CreateHubAccount { currency: usd(), kind }));
        }
        for (at, dfsp) in DFSPS.into_iter().enumerate() {
            let (name, currency) = (name(dfsp), usd());
            world.change(Change::CreateParticipant(CreateParticipant { name, currency }));
            let (limit, position) = (units(100), units(0));
            world.change(Change::SetInitialPositionAndLimits(SetInitialPositionAndLimits {
                name,
                currency,
                limit,
                position,
            }));
            world.funds(900 + at, dfsp, FundsDirection::In, 200);
        }
        world
    }

    fn watch(&mut self, assumptions: &[Override]) {
        let next = LogIndex(self.state.log_index().0 + 1);
        let from = Edge::Record(next);
        self.watching.push(WhatIf::new(assumptions.to_vec(), from, None));
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
        let (limit, alarm_percentage) = (units(whole), units(10));
        self.change(Change::SetLimit(SetLimit { name, currency, limit, alarm_percentage }));
    }

    /// One command in a batch of its own, a millisecond later.
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
        let watching = &mut self.watching;
        let mut watch = |moment: ApplyStep<'_>, state: &State, effects: &Effects| {
            watching.iter_mut().for_each(|one| one.watch(moment, state, effects));
        };
        self.state.apply_watched(&batch, [command], &mut effects, &mut watch);
        effects.outcomes[0]
    }

    /// A transfer that expires 100 ms from now.
    fn prepare(&mut self, number: usize, route: (&str, &str), amount: i128) -> Outcome {
        self.prepare_for(100, (number, route, amount))
    }

    /// One that expires so many milliseconds from now; its own batch is one from now.
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

    fn row(&self, dfsp: &str) -> Row {
        let (index, _) = self.state.register().find(&name(dfsp)).expect("it was made");
        self.watching[0].rows[&(index, usd())]
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
    Override { name: name(dfsp), currency: usd(), what: OverrideEffect::Cap(units(whole)) }
}

fn cover(dfsp: &str, whole: i128) -> Override {
    Override { name: name(dfsp), currency: usd(), what: OverrideEffect::Cover(units(whole)) }
}

/// Count and value, in whole units.
fn told(tally: Tally) -> (u64, i128) {
    (tally.count, tally.value.units() / 10_000)
}

#[track_caller]
fn check(course: Totals, refused: [(u64, i128); 3], numbers: (i128, i128)) {
    assert_eq!([course.refused, course.appear, course.vanish].map(told), refused, "{course:?}");
    let whole = |amount: Option<Amount>| amount.expect("it was seen").units() / 10_000;
    assert_eq!((whole(course.highest), whole(course.headroom)), numbers, "{course:?}");
}

#[test]
fn a_lower_cap_by_hand() {
    let mut world = World::new();
    world.watch(&[cap("alpha", 50)]);
    let route = ("alpha", "beta");
    // The log has a cap of 100; by the assumed one of 50 this one is refused,
    assert_eq!(world.prepare(1, route, 60), Outcome::PrepareReserved);
    // and this one is not.
    assert_eq!(world.prepare(2, route, 50), Outcome::PrepareCapExceeded);
    assert_eq!(world.fulfil(1, "beta"), Outcome::Committed);
    // The log is at 60, the copies at 50, and at 0 where it was given back.
    assert_eq!(world.prepare(3, route, 30), Outcome::PrepareReserved);
    assert_eq!(world.fulfil(3, "beta"), Outcome::Committed);
    // The deadline of the second: it comes back where it was not committed.
    world.wait(200);
    // The log is at 90, the copies at 50, 0 and 30.
    assert_eq!(world.prepare(4, route, 20), Outcome::PrepareCapExceeded);

    let Row { log, all_commit, none_commit, given_back } = world.row("alpha");
    check(log, [(2, 70), (0, 0), (0, 0)], (90, 10));
    check(all_commit, [(3, 110), (2, 90), (1, 50)], (50, 0));
    check(none_commit, [(2, 90), (2, 90), (2, 70)], (50, 0));
    check(given_back, [(1, 60), (1, 60), (2, 70)], (50, 0));
    let of = |mark: Option<Mark>| mark.map(|mark| mark.transfer);
    assert_eq!(of(all_commit.refused.first), Some(id(1)));
    assert_eq!(of(all_commit.refused.last), Some(id(4)));
    let differing: Vec<_> =
        world.watching[0].differing.iter().map(|one| one.mark.transfer).collect();
    assert_eq!(differing, [1, 2, 3, 4].map(id));
    // What beta received is less by 40 in one copy, and by all of it in the other.
    let beta = world.row("beta");
    assert_eq!([beta.log, beta.all_commit].map(|course| course.refused.count), [0, 0]);
}

/// What a payee gives back at once stands in nobody's way, where it would until its deadline.
#[test]
fn what_is_given_back_at_once_leaves_its_room_to_others() {
    let mut world = World::new();
    world.watch(&[cap("alpha", 150), cover("alpha", 100)]);
    assert_eq!(world.prepare(1, ("alpha", "beta"), 110), Outcome::PrepareCapExceeded);
    assert_eq!(world.prepare(2, ("alpha", "beta"), 60), Outcome::PrepareReserved);
    let Row { log, all_commit, none_commit, given_back } = world.row("alpha");
    check(log, [(1, 110), (0, 0), (0, 0)], (60, 40));
    check(all_commit, [(1, 60), (1, 60), (1, 110)], (110, 40));
    check(none_commit, [(1, 60), (1, 60), (1, 110)], (110, 40));
    check(given_back, [(0, 0), (0, 0), (1, 110)], (110, 40));
}

/// Its deadline had passed when it was decided: it came back within its own decision.
#[test]
fn a_position_that_lasted_no_millisecond_was_reached() {
    let mut world = World::new();
    world.watch(&[cap("alpha", 70)]);
    let route = ("alpha", "beta");
    assert_eq!(world.prepare(1, route, 30), Outcome::PrepareReserved);
    assert_eq!(world.prepare_for(1, (2, route, 60)), Outcome::PrepareReserved);
    assert_eq!(world.prepare_for(1, (3, route, 35)), Outcome::PrepareReserved);
    let Row { log, all_commit, none_commit, given_back } = world.row("alpha");
    check(log, [(0, 0); 3], (90, 10));
    for course in [all_commit, none_commit, given_back] {
        check(course, [(1, 60), (1, 60), (0, 0)], (65, 5));
    }
}

/// A copy that owes a payee less than the log has room where the log had none.
#[test]
fn what_was_refused_for_a_full_lane_stays_refused() {
    let mut world = World::new();
    let lane_of = |lane_capacity| Settings { lane_capacity, ..Settings::default() };
    world.change(Change::Configure(Configure { settings: lane_of(2) }));
    world.watch(&[cap("alpha", 70)]);
    assert_eq!(world.prepare(1, ("alpha", "beta"), 60), Outcome::PrepareReserved);
    assert_eq!(world.prepare(2, ("alpha", "beta"), 30), Outcome::PrepareReserved);
    assert_eq!(world.prepare(3, ("gamma", "beta"), 50), Outcome::PreparePayeeLaneFull);
    let at_once = (5, ("gamma", "beta"), 20);
    assert_eq!(world.prepare_for(1, at_once), Outcome::PreparePayeeLaneFull);
    world.change(Change::Configure(Configure { settings: lane_of(9) }));
    assert_eq!(world.prepare(3, ("gamma", "beta"), 50), Outcome::PrepareResentAborted);
    assert_eq!(world.prepare(4, ("gamma", "beta"), 90), Outcome::PrepareReserved);
    let Row { log, all_commit, none_commit, given_back } = world.row("gamma");
    for course in [log, all_commit, none_commit, given_back] {
        check(course, [(0, 0); 3], (90, 10));
    }
    let alpha = world.row("alpha");
    for course in [alpha.all_commit, alpha.none_commit, alpha.given_back] {
        check(course, [(1, 30), (1, 30), (0, 0)], (60, 10));
    }
    assert_eq!(world.watching[0].differing.len(), 1);
}

#[test]
fn more_and_less_cover_by_hand() {
    // The cap of 100 stays; cover is 200.
    for (more, expected, highest) in [(-150, [(1, 40), (1, 40), (0, 0)], 40), (50, [(0, 0); 3], 80)]
    {
        let mut world = World::new();
        world.watch(&[cover("alpha", more)]);
        assert_eq!(world.prepare(1, ("alpha", "beta"), 40), Outcome::PrepareReserved);
        assert_eq!(world.prepare(2, ("alpha", "beta"), 40), Outcome::PrepareReserved);
        let Row { none_commit, all_commit, given_back, .. } = world.row("alpha");
        let left = (200 + more).min(100) - highest;
        check(none_commit, expected, (highest, left));
        check(all_commit, expected, (highest, left));
        check(given_back, expected, (highest, left));
    }
}

/// Cover is assumed by movements of funds that no log has: they take nobody's id.
#[test]
fn no_id_is_taken_by_what_is_assumed() {
    let mut world = World::new();
    world.watch(&[cover("alpha", 50), cover("beta", 50), cover("gamma", -50)]);
    for number in 0..6 {
        assert_eq!(world.prepare(number, ("alpha", "beta"), 1), Outcome::PrepareReserved);
    }
    let ids = [0, 1, 2].map(|at| id_of_nobody(at).to_string());
    assert!(ids.iter().all(|id| TransferId::parse(id).is_none()), "{ids:?}");
    assert!(world.watching[0].differing.is_empty(), "more cover refuses nothing");
}

#[test]
fn what_cannot_be_assumed_is_said() {
    let mut world = World::new();
    for (assumption, expected) in [
        (cap("omega", 1), "no such account"),
        (cover("alpha", -201), "cannot be taken away"),
        (cover("omega", 1), "no such account"),
    ] {
        world.watching.clear();
        world.watch(&[assumption]);
        world.wait(1);
        let fault = world.watching[0].fault.clone().expect("it cannot be");
        assert!(fault.contains(expected), "{fault}");
    }
}

/// A cap that the log changes later stays the assumed one.
#[test]
fn the_assumed_cap_stays() {
    let mut world = World::new();
    world.watch(&[cap("alpha", 50)]);
    world.set_cap("alpha", 10);
    assert_eq!(world.prepare(1, ("alpha", "beta"), 40), Outcome::PrepareCapExceeded);
    assert_eq!(world.watching[0].overridden, 1);
    assert_eq!(told(world.row("alpha").none_commit.vanish), (1, 40));
}

/// By the log's cap one transfer is refused that the assumed one lets through. Where that raises
/// the position, a later withdrawal is refused, and its money covers a transfer that the log
/// refused for want of it.
#[test]
fn a_withdrawal_that_only_the_log_takes_is_named_and_what_it_covers_is_counted() {
    let mut world = World::new();
    let route = ("alpha", "beta");
    world.funds(910, "alpha", FundsDirection::In, 300);
    world.set_cap("alpha", 250);
    world.prepare(1, route, 200);
    world.fulfil(1, "beta");
    world.watch(&[cap("alpha", 1_000)]);
    assert_eq!(world.prepare(2, route, 100), Outcome::PrepareCapExceeded);
    assert_eq!(world.prepare(3, route, 50), Outcome::PrepareReserved);
    assert_eq!(world.fulfil(3, "beta"), Outcome::Committed);
    world.set_cap("alpha", 1_000);
    // The log is at 250 with cover of 500; so is the copy where the second was given back. The
    // others are at 350 and have 150 to spare.
    assert_eq!(world.funds(911, "alpha", FundsDirection::Out, 200), Outcome::Accepted);
    let reserved_at = world.state.log_index();
    assert_eq!(world.end_funds(911, "alpha", true), Outcome::Accepted);
    // 350 of 300, in the others 450 of 500.
    assert_eq!(world.prepare(4, route, 100), Outcome::PrepareLiquidityInsufficient);

    let Row { log, all_commit, none_commit, given_back } = world.row("alpha");
    check(log, [(2, 200), (0, 0), (0, 0)], (250, 0));
    check(all_commit, [(0, 0), (0, 0), (2, 200)], (450, 50));
    check(none_commit, [(0, 0), (0, 0), (2, 200)], (450, 50));
    check(given_back, [(1, 100), (0, 0), (1, 100)], (300, 50));
    check_withdrawals(log, (0, 0), (0, 0), 0);
    check_withdrawals(all_commit, (1, 200), (1, 100), 200);
    check_withdrawals(none_commit, (1, 200), (1, 100), 200);
    check_withdrawals(given_back, (0, 0), (0, 0), 0);
    let [one] = &world.watching[0].funds_differing[..] else { panic!("a single movement") };
    assert_eq!((one.mark.log_index, one.mark.transfer), (reserved_at, id(911)));
    assert_eq!((one.participant, one.amount), (name("alpha"), units(200)));
    assert_eq!(
        (one.standings.log, one.standings.given_back),
        (FundsStatus::Withdrawn, FundsStatus::Withdrawn)
    );
    assert_eq!(
        (one.standings.all_commit, one.standings.none_commit),
        (FundsStatus::Refused, FundsStatus::Refused)
    );
    assert_eq!(one.differs(), [true, true, false]);
}

#[track_caller]
fn check_withdrawals(course: Totals, refused: (u64, i128), covered: (u64, i128), kept: i128) {
    assert_eq!(told(course.withdrawals_refused), refused, "{course:?}");
    assert_eq!(told(course.so_covered), covered, "{course:?}");
    assert_eq!(course.not_withdrawn, units(kept), "{course:?}");
}

/// Called off in the log, it is cover again everywhere.
#[test]
fn a_withdrawal_that_is_called_off_makes_a_difference_until_then() {
    let mut world = World::new();
    world.watch(&[cover("alpha", -150)]);
    assert_eq!(world.funds(911, "alpha", FundsDirection::Out, 100), Outcome::Accepted);
    check_withdrawals(world.row("alpha").all_commit, (1, 100), (0, 0), 100);
    world.end_funds(911, "alpha", false);
    check_withdrawals(world.row("alpha").all_commit, (1, 100), (0, 0), 0);
    let [one] = &world.watching[0].funds_differing[..] else { panic!("a single movement") };
    assert_eq!(
        (one.standings.log, one.standings.none_commit),
        (FundsStatus::CalledOff, FundsStatus::Refused)
    );
}

/// More cover lets out what the log refused; its end, should an operator have tried, counts.
#[test]
fn a_withdrawal_that_only_the_copies_take_lowers_their_cover() {
    let mut world = World::new();
    world.watch(&[cover("alpha", 100)]);
    assert_eq!(world.funds(911, "alpha", FundsDirection::Out, 250), Outcome::FundsInsufficient);
    let standing = |world: &World| {
        let [one] = &world.watching[0].funds_differing[..] else { panic!("a single movement") };
        one.standings.all().map(|one| *one)
    };
    let [refused, reserved, withdrawn] =
        [FundsStatus::Refused, FundsStatus::Reserved, FundsStatus::Withdrawn];
    assert_eq!(standing(&world), [refused, reserved, reserved, reserved]);
    assert_eq!(world.end_funds(911, "alpha", true), Outcome::FundsOutNotReserved);
    assert_eq!(standing(&world), [refused, withdrawn, withdrawn, withdrawn]);
    let Row { log, all_commit, .. } = world.row("alpha");
    check_withdrawals(log, (1, 250), (0, 0), 0);
    check_withdrawals(all_commit, (0, 0), (0, 0), -250);
}

/// The cover of a copy is the log's but for the movements that are named.
#[test]
fn covers_differ_by_the_movements_that_are_named() {
    let mut named = 0;
    for seed in 0..60 {
        let (mut world, mut random) = (World::new(), Random(seed));
        world.watch(&[cap("alpha", 30), cap("beta", 1_000), cover("gamma", 80)]);
        play_with_funds(&mut world, &mut random);
        let funds = &world.watching[0].funds_differing;
        for dfsp in DFSPS {
            let whole = |standing, amount: Amount| match standing {
                FundsStatus::Reserved | FundsStatus::Withdrawn => amount.units() / 10_000,
                FundsStatus::Deposited | FundsStatus::Refused | FundsStatus::CalledOff => 0,
            };
            let own = funds.iter().filter(|one| one.participant == name(dfsp));
            let expected = own.fold([0; 3], |sum, one| {
                let in_log = whole(one.standings.log, one.amount);
                let kept = one.standings.copies().map(|it| in_log - whole(*it, one.amount));
                [0, 1, 2].map(|at| sum[at] + kept[at])
            });
            let Row { all_commit, none_commit, given_back, .. } = world.row(dfsp);
            let kept = [all_commit, none_commit, given_back]
                .map(|course| course.not_withdrawn.units() / 10_000);
            assert_eq!(kept, expected, "seed {seed}: {dfsp}, {funds:?}");
        }
        let mut ids: Vec<_> = funds.iter().map(|one| one.mark.transfer).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), funds.len(), "each one once");
        named += funds.len();
    }
    assert!(50 < named, "the histories come near the covers: {named}");
}

/// A generator of histories: the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

/// Up to 60 transfers of 1 to 60 among the three, answered, sent again, left to expire, their
/// notices delivered, given up and sent again.
fn play(world: &mut World, random: &mut Random) {
    (0..150).for_each(|_| play_on(world, random));
}

fn play_on(world: &mut World, random: &mut Random) {
    let number = random.below(60);
    let (payer, payee) = (DFSPS[number % 3], DFSPS[(number + 1) % 3]);
    match random.below(10) {
        0..=4 => drop(world.prepare(number, (payer, payee), 1 + number as i128)),
        5 | 6 => drop(world.fulfil(number, payee)),
        7 => drop(world.abort(number, payee)),
        8 => deliver(world, random),
        _ => world.wait(random.below(60) as u64),
    }
}

/// The same with withdrawals of 1 to 120, ended or not, and deposits.
fn play_with_funds(world: &mut World, random: &mut Random) {
    for at in 0..150 {
        play_on(world, random);
        let (number, dfsp) = (1_000 + at, DFSPS[random.below(3)]);
        let amount = 1 + random.below(120) as i128;
        match random.below(12) {
            0 => drop(world.funds(number, dfsp, FundsDirection::Out, amount)),
            1 => drop(world.funds(number, dfsp, FundsDirection::In, amount)),
            2..=7 => {
                let begun = 1_000 + random.below(at + 1);
                let commit = random.below(3) < 2;
                for dfsp in DFSPS {
                    world.end_funds(begun, dfsp, commit);
                }
            }
            _ => {}
        }
    }
}

fn deliver(world: &mut World, random: &mut Random) {
    let dead = world.state.dead_letters().next().map(|letter| letter.notice.id);
    if let Some(notice) = dead.filter(|_| random.below(2) == 0) {
        world.change(Change::Redeliver(Redeliver { notice }));
        return;
    }
    let mut owed: Vec<_> = world.state.notices_owed().map(|notice| notice.id).collect();
    owed.sort_unstable();
    let results = [DeliveryResult::Delivered, DeliveryResult::Dead, DeliveryResult::Delivered];
    let end = |notice| {
        let result = results[random.below(3)];
        FinishedDelivery { notice, result, attempts: 1, status: 200, finished_ms: 1 }
    };
    let ends = owed.into_iter().take(8).map(end).collect();
    world.decide(&Command::FinishDeliveries(ends));
}

#[test]
fn without_a_change_everything_is_as_in_the_log() {
    for seed in 0..60 {
        let (mut world, mut random) = (World::new(), Random(seed));
        play(&mut world, &mut random);
        // One that changes nothing, and one that says what is the case: two records more.
        world.watch(&[]);
        world.watch(&[cap("alpha", 100), cap("beta", 100)]);
        play_with_funds(&mut world, &mut random);
        assert!(world.watching[0].is_the_same(&world.state), "seed {seed}");
        for one in &world.watching {
            assert!(one.differing.is_empty(), "seed {seed}: {:?}", one.differing);
            assert!(one.funds_differing.is_empty(), "seed {seed}: {:?}", one.funds_differing);
            for row in one.rows.values() {
                let courses = row.copies();
                assert_eq!(courses, [&row.log; 3], "seed {seed}");
            }
        }
    }
}

/// The first decision that differs is what was asked for; later ones follow from it, and can go
/// either way: what a refused transfer leaves free, the next may take.
#[test]
fn the_first_difference_is_of_the_kind_that_was_assumed() {
    let mut differing = 0;
    for seed in 0..60 {
        let (mut world, mut random) = (World::new(), Random(seed));
        world.watch(&[cap("beta", 40)]);
        world.watch(&[cap("beta", 160), cover("beta", 100)]);
        world.watch(&DFSPS.map(|dfsp| cap(dfsp, 1_000_000)));
        world.watching[2].assumptions.extend(DFSPS.map(|dfsp| cover(dfsp, 1_000_000)));
        play(&mut world, &mut random);
        let reserved = Outcome::PrepareReserved;
        let [less, more, all] = &world.watching[..] else { panic!("three look on") };
        if let Some(first) = less.differing.first() {
            assert_eq!((first.payer, first.outcomes.log), (name("beta"), reserved), "seed {seed}");
            assert_eq!(first.outcomes.all_commit, Outcome::PrepareCapExceeded, "seed {seed}");
        }
        if let Some(first) = more.differing.first() {
            let outcomes = first.outcomes.copies().map(|one| *one);
            assert_eq!((first.payer, outcomes), (name("beta"), [reserved; 3]), "{seed}");
        }
        for row in all.rows.values() {
            let courses = row.copies();
            assert_eq!(courses.map(|course| course.refused.count), [0; 3]);
            assert_eq!(row.all_commit.vanish.count, row.log.refused.count, "seed {seed}");
        }
        differing += less.differing.len() + more.differing.len() + all.differing.len();
    }
    assert!(100 < differing, "the histories come near the caps: {differing}");
}

/// Equal amounts, one way, every one committed: nothing that a refusal leaves free comes back, so
/// a lower cap can only add.
#[test]
fn where_nothing_comes_back_a_lower_cap_only_adds_refusals() {
    for lower in [0, 5, 35, 99] {
        let mut world = World::new();
        world.watch(&[cap("alpha", lower)]);
        for number in 0..20 {
            world.prepare(number, ("alpha", "beta"), 10);
            world.fulfil(number, "beta");
        }
        let Row { log, none_commit, .. } = world.row("alpha");
        assert_eq!((log.refused.count, none_commit.vanish.count), (10, 0), "{lower}");
        assert_eq!(none_commit.refused.count, 20 - lower.unsigned_abs() as u64 / 10, "{lower}");
    }
}
