//! Compression of one block, with the feature `compression`. Without it, every call is an error.

#[cfg(not(feature = "compression"))]
pub(crate) use self::absent::{Compressor, Decompressor};
#[cfg(feature = "compression")]
pub(crate) use zstd::bulk::{Compressor, Decompressor};

#[cfg(not(feature = "compression"))]
mod absent {
    use std::convert::Infallible;
    use std::io;
    use std::marker::PhantomData;

    const ABSENT: &str = "compressed segments: this build cannot read or write them; build it \
                          with --features compression";

    /// Cannot be constructed.
    pub(crate) struct Compressor<'a>(Infallible, PhantomData<&'a ()>);

    /// Cannot be constructed.
    pub(crate) struct Decompressor<'a>(Infallible, PhantomData<&'a ()>);

    impl Compressor<'_> {
        pub(crate) fn new(_level: i32) -> io::Result<Self> {
            Err(io::Error::other(ABSENT))
        }

        pub(crate) fn compress(&mut self, _plain: &[u8]) -> io::Result<Vec<u8>> {
            match self.0 {}
        }
    }

    impl Decompressor<'_> {
        pub(crate) fn new() -> io::Result<Self> {
            Err(io::Error::other(ABSENT))
        }

        pub(crate) fn decompress(
            &mut self,
            _compressed: &[u8],
            _bytes: usize,
        ) -> io::Result<Vec<u8>> {
            match self.0 {}
        }
    }
}
