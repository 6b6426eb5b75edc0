//! The log in files, through its public interface.

mod archive;
mod backup;
mod common;
mod contract;
mod crash;
mod damage;
mod damage_matrix;
mod durable_mark;
mod erasure;
mod live_readers;
mod preallocation;
mod real_disk;
mod record_search;
mod torn_zeros;
