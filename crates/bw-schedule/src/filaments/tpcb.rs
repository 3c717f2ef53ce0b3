//! A TPC-B-like load on a block device: bank transactions, each a chain of seven operations.
//!
//! Per unit of scale 1 branch, 10 tellers and 100,000 accounts. A transaction: read the account's page;
//! write it; write the teller's page; write the branch's page; append to the history; write the
//! log; flush. Each operation waits for the one before. The teller is uniform; the account belongs to the
//! teller's branch with probability 0.85, otherwise to another. Closed with some clients without think time,
//! or open with a rate.
//!
//! It is *like* TPC-B: not a database, and no result of it is a TPC result. Approximations:
//! - pages of 4 KiB hold 40 rows of 100 bytes (accounts, tellers, branches) or 81 of 50 bytes (history);
//! - teller and branch pages count as cached: written, never read; so does the history's last page;
//! - pages are written in the transaction that changed them, before its log: a database with write-ahead
//!   logging delays them. The number of operations is the same, their order is stricter;
//! - every transaction writes a log page and flushes separately: there is no group commit;
//! - transaction k of client c of C has number c + kC, and its number determines where it appends, as if clients
//!   took turns: the appends are sequential except for the clients' different speed, and they
//!   do not depend on how clients are spread over workers;
//! - history and log are circular areas in the rest of the region, 3/4 and 1/4 of it.
//!
//! Source: TPC Benchmark B, revision 2.0 (1994).

use crate::access::RegionSpec;
use crate::filaments::sessions::SessionPattern;
use crate::filaments::{Completion, Emissions, Event, Filament};
use crate::random::Stream;
use bw_model::{Kind, Nanos, Operation};

const PAGE_BYTES: u64 = 4096;
const ROWS_PER_PAGE: u64 = 40;
const HISTORY_ROWS_PER_PAGE: u64 = 81;
const TELLERS_PER_BRANCH: u64 = 10;
const ACCOUNTS_PER_BRANCH: u64 = 100_000;
/// Percentage of accounts that belong to the teller's branch.
const HOME_PERCENT: u64 = 85;
/// Minimum number of pages of history and log together.
const LEAST_REST_PAGES: u64 = 4;

/// The location of a table [pages from the start of the region].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PageTable {
    first_page: u64,
    pages: u64,
}

impl PageTable {
    /// Returns page number `place` of the table, modulo its length.
    fn page(self, place: u64) -> u64 {
        self.first_page + place % self.pages
    }
}

/// The locations of all tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TpcbLayout {
    offset_bytes: u64,
    branches: u64,
    account: PageTable,
    teller: PageTable,
    branch: PageTable,
    history: PageTable,
    log: PageTable,
}

impl TpcbLayout {
    /// Returns the layout of a bank of this `scale` in a region of a target.
    ///
    /// # Errors
    /// The scale is zero or the region is too small, with the size it must have.
    pub(crate) fn new(scale: u64, region: RegionSpec, target_bytes: u64) -> Result<Self, String> {
        if !(1..=1 << 32).contains(&scale) {
            return Err(format!("tpcb: scale is {scale}: give 1 to {}", 1_u64 << 32));
        }
        let (offset_bytes, bytes) = region.extent(target_bytes, PAGE_BYTES)?;
        let mut first_page = 0;
        let mut table = |pages: u64| {
            let table = PageTable { first_page, pages };
            first_page += pages;
            table
        };
        let account = table((scale * ACCOUNTS_PER_BRANCH).div_ceil(ROWS_PER_PAGE));
        let teller = table((scale * TELLERS_PER_BRANCH).div_ceil(ROWS_PER_PAGE));
        let branch = table(scale.div_ceil(ROWS_PER_PAGE));
        let tables = account.pages + teller.pages + branch.pages;
        let rest = (bytes / PAGE_BYTES).saturating_sub(tables);
        if rest < LEAST_REST_PAGES {
            return Err(too_small(scale, tables, bytes));
        }
        let history = table(rest - rest / 4);
        let log = table(rest / 4);
        Ok(Self {
            offset_bytes,
            branches: scale,
            account,
            teller,
            branch,
            history,
            log,
        })
    }

    /// Draws the account, teller and branch of transaction `number`.
    fn transaction(&self, number: u64, stream: &mut Stream) -> Transaction {
        let teller = stream.below(self.branches * TELLERS_PER_BRANCH);
        let home = teller / TELLERS_PER_BRANCH;
        let branch = self.account_branch(home, stream);
        let account = branch * ACCOUNTS_PER_BRANCH + stream.below(ACCOUNTS_PER_BRANCH);
        Transaction {
            number,
            account_page: self.account.page(account / ROWS_PER_PAGE),
            teller_page: self.teller.page(teller / ROWS_PER_PAGE),
            branch_page: self.branch.page(home / ROWS_PER_PAGE),
            step: TransactionStep::ReadAccount,
        }
    }

    /// Draws the branch of the account in a transaction at a teller of branch `home`.
    fn account_branch(&self, home: u64, stream: &mut Stream) -> u64 {
        if self.branches == 1 || stream.below(100) < HOME_PERCENT {
            return home;
        }
        let other = stream.below(self.branches - 1);
        other + u64::from(other >= home)
    }

    /// Returns the operation of the transaction's current step.
    fn operation(&self, transaction: &Transaction, at: Nanos) -> Operation {
        let (kind, page) = match transaction.step {
            TransactionStep::ReadAccount => (Kind::Read, transaction.account_page),
            TransactionStep::WriteAccount => (Kind::Write, transaction.account_page),
            TransactionStep::WriteTeller => (Kind::Write, transaction.teller_page),
            TransactionStep::WriteBranch => (Kind::Write, transaction.branch_page),
            TransactionStep::AppendHistory => {
                let place = transaction.number / HISTORY_ROWS_PER_PAGE;
                (Kind::Write, self.history.page(place))
            }
            TransactionStep::WriteLog => (Kind::Write, self.log.page(transaction.number)),
            TransactionStep::Flush => (Kind::Flush, 0),
        };
        let flush = kind == Kind::Flush;
        Operation {
            at,
            offset: if flush {
                0
            } else {
                self.offset_bytes + page * PAGE_BYTES
            },
            size: if flush { 0 } else { PAGE_BYTES as u32 },
            kind,
            notify: true,
            tag: 0,
        }
    }
}

fn too_small(scale: u64, tables: u64, bytes: u64) -> String {
    let needed = (tables + LEAST_REST_PAGES) * PAGE_BYTES;
    format!(
        "tpcb: a scale of {scale} needs a region of at least {needed} bytes, and it has {bytes}: \
         lower the scale or make the region larger"
    )
}

/// The step of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransactionStep {
    ReadAccount,
    WriteAccount,
    WriteTeller,
    WriteBranch,
    AppendHistory,
    WriteLog,
    Flush,
}

impl TransactionStep {
    /// Returns the step after this one; None after the last.
    fn next(self) -> Option<Self> {
        Some(match self {
            Self::ReadAccount => Self::WriteAccount,
            Self::WriteAccount => Self::WriteTeller,
            Self::WriteTeller => Self::WriteBranch,
            Self::WriteBranch => Self::AppendHistory,
            Self::AppendHistory => Self::WriteLog,
            Self::WriteLog => Self::Flush,
            Self::Flush => return None,
        })
    }
}

/// A transaction in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transaction {
    number: u64,
    account_page: u64,
    teller_page: u64,
    branch_page: u64,
    step: TransactionStep,
}

/// A client without think time: the next transaction starts when one is committed.
#[derive(Debug)]
pub(crate) struct Client {
    layout: TpcbLayout,
    stream: Stream,
    transaction: Transaction,
    clients: u64,
}

impl Client {
    /// Returns client `client` of `clients`.
    #[must_use]
    pub(crate) fn new(layout: TpcbLayout, client: u64, clients: u64, mut stream: Stream) -> Self {
        let transaction = layout.transaction(client, &mut stream);
        Self {
            layout,
            stream,
            transaction,
            clients,
        }
    }

    fn go_on(&mut self) {
        match self.transaction.step.next() {
            Some(step) => self.transaction.step = step,
            None => {
                let number = self.transaction.number + self.clients;
                self.transaction = self.layout.transaction(number, &mut self.stream);
            }
        }
    }
}

impl Filament for Client {
    fn wake(&mut self, event: Event, emit: &mut Emissions) {
        let at = match event {
            Event::Start => Nanos::ZERO,
            Event::Completed(ended) => {
                self.go_on();
                ended.at
            }
            Event::Timer { .. } | Event::Message { .. } => return,
        };
        let operation = self.layout.operation(&self.transaction, at);
        emit.operations.push(operation);
    }
}

/// Transactions that arrive at a rate, however many are in progress.
#[derive(Debug)]
pub(crate) struct OpenBank {
    /// The locations of all tables.
    pub layout: TpcbLayout,
    /// The seed of the transactions' own streams.
    pub seed: u64,
}

impl SessionPattern for OpenBank {
    type Session = Transaction;

    fn begin(&mut self, number: u64, at: Nanos) -> (Transaction, Operation) {
        let mut stream = Stream::new(self.seed, number);
        let transaction = self.layout.transaction(number, &mut stream);
        let first = self.layout.operation(&transaction, at);
        (transaction, first)
    }

    fn go_on(&mut self, transaction: &mut Transaction, ended: &Completion) -> Option<Operation> {
        transaction.step = transaction.step.next()?;
        Some(self.layout.operation(transaction, ended.at))
    }
}
