//! The programs of the wheel. They are one package because maturin installs the programs of one.
