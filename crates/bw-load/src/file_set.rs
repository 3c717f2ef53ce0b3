//! File sets: the directories, files and symbolic links that a file workload uses, on the target that holds them.
//!
//! [`store`] is what the maker needs of a place that holds files: a mounted directory, or the export of an NFS server.

pub(crate) mod call;
pub(crate) mod claim;
pub mod dir;
pub mod directory;
pub mod make;
pub(crate) mod open_set;
pub(crate) mod ring;
pub(crate) mod slots;
pub mod store;
