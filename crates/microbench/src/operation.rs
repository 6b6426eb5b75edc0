//! One operation, measured by the clock and by callgrind.

/// A repeatable operation.
pub struct Operation {
    /// Its table.
    pub group: Group,
    /// Its name.
    pub name: String,
    /// Repetitions per call.
    pub count: usize,
    work: Box<dyn Work>,
}

/// The tables of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Decisions of the kernel.
    Kernel,
    /// Stored forms.
    Codec,
    /// Single steps of the wire protocol.
    Fspiop,
    /// All steps that one kind of message takes.
    Message,
    /// Signatures.
    Jws,
    /// Stages of a message for the waterfall.
    Waterfall,
}

impl Group {
    /// The name of the group in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Codec => "codec",
            Self::Fspiop => "fspiop",
            Self::Message => "messages",
            Self::Jws => "jws",
            Self::Waterfall => "waterfall",
        }
    }
}

impl Operation {
    /// An operation without preparation.
    pub(crate) fn plain<O: 'static>(
        (group, name, count): (Group, &str, usize),
        mut perform: impl FnMut() -> O + 'static,
    ) -> Self {
        Self::prepared((group, name, count), || (), move |()| perform())
    }

    /// An operation that consumes an input, whose preparation does not count.
    pub(crate) fn prepared<I: 'static, O: 'static>(
        (group, name, count): (Group, &str, usize),
        make: impl FnMut() -> I + 'static,
        perform: impl FnMut(&mut I) -> O + 'static,
    ) -> Self {
        let work = Box::new(Prepared { made: Vec::new(), make, perform });
        Self { group, name: name.into(), count, work }
    }

    /// An operation that is done `count` times by one call.
    pub(crate) fn batch<I: 'static>(
        (group, name, count): (Group, &str, usize),
        make: impl FnMut() -> I + 'static,
        perform: impl FnMut(&mut I) + 'static,
    ) -> Self {
        let work = Box::new(Batch { made: None, make, perform });
        Self { group, name: name.into(), count, work }
    }

    /// Prepares the inputs that [`Operation::perform`] consumes; must be called before each.
    pub fn prepare(&mut self) {
        self.work.prepare(self.count);
    }

    /// Does the operation [`Operation::count`] times.
    pub fn perform(&mut self) {
        self.work.perform();
    }
}

trait Work {
    fn prepare(&mut self, count: usize);
    fn perform(&mut self);
}

struct Prepared<I, M, P> {
    made: Vec<I>,
    make: M,
    perform: P,
}

impl<I, O, M: FnMut() -> I, P: FnMut(&mut I) -> O> Work for Prepared<I, M, P> {
    fn prepare(&mut self, count: usize) {
        self.made.clear();
        self.made.extend(std::iter::repeat_with(&mut self.make).take(count));
    }

    fn perform(&mut self) {
        for input in &mut self.made {
            std::hint::black_box((self.perform)(std::hint::black_box(input)));
        }
    }
}

struct Batch<I, M, P> {
    made: Option<I>,
    make: M,
    perform: P,
}

impl<I, M: FnMut() -> I, P: FnMut(&mut I)> Work for Batch<I, M, P> {
    fn prepare(&mut self, _count: usize) {
        self.made = Some((self.make)());
    }

    fn perform(&mut self) {
        let made = self.made.as_mut().expect("prepare is called before each perform");
        (self.perform)(std::hint::black_box(made));
    }
}
