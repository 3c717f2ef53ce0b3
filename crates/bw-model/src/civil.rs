//! Dates of the Gregorian calendar and days since 1970-01-01.
//!
//! Years start in March, so that the leap day is the last day of a year. Source: H. Hinnant, chrono-compatible low-level
//! date algorithms.

/// Days from 0000-03-01 to 1970-01-01.
const BEFORE_1970: u64 = 719_468;

/// A date after 0000-03-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// The year.
    pub year: u64,
    /// The month, from 1.
    pub month: u64,
    /// The day of the month, from 1.
    pub day: u64,
}

impl Date {
    /// Returns the date this many days after 1970-01-01.
    #[must_use]
    pub fn after_1970(days: u64) -> Self {
        let shifted = days + BEFORE_1970;
        // Cycles of 400 years.
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        Self { year, month, day }
    }

    /// Returns the days since 1970-01-01, negative before; None if no month has this number or this day. A day that only
    /// longer months have, such as April 31, is the day after the month's end.
    #[must_use]
    pub fn days_since_1970(self) -> Option<i64> {
        let Self { year, month, day } = self;
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) || year < 1 {
            return None;
        }
        let (year, month) = match month {
            1 | 2 => (year - 1, month + 9),
            _ => (year, month - 3),
        };
        let leap_days = year / 4 - year / 100 + year / 400;
        let days = year.checked_mul(365)? + leap_days + (month * 153 + 2) / 5 + day - 1;
        Some(i64::try_from(days).ok()? - BEFORE_1970.cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_inverse_and_in_order() {
        let mut former = Date::after_1970(0);
        assert_eq!((former.year, former.month, former.day), (1970, 1, 1));
        for days in 1..200_000 {
            let date = Date::after_1970(days);
            assert_eq!(date.days_since_1970(), Some(days.cast_signed()));
            let next_day =
                (date.year, date.month, date.day) > (former.year, former.month, former.day);
            assert!(
                next_day && (date.day == 1 || date.day == former.day + 1),
                "{date:?}"
            );
            former = date;
        }
        let leap_day = Date {
            year: 2000,
            month: 2,
            day: 29,
        };
        assert_eq!(leap_day.days_since_1970(), Some(11_016));
        let none = Date {
            month: 13,
            ..leap_day
        };
        assert_eq!(none.days_since_1970(), None);
    }
}
