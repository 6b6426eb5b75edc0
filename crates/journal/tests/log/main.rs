//! The log in files, through its public interface.

mod archive;
mod backup;
mod beside;
mod common;
mod contract;
mod crash;
mod damage;
mod mark;
mod matrix;
mod reading;
mod real_disk;
mod room;
mod zeros;
