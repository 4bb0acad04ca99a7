//! Native halves of `Intl`: collation, decimal digits, time zones and locale names, from ICU4X and the IANA database.
//!
//! Patterns and options are in `intl.js`. Everything is compiled in; nothing is read from the system, which a locked-down
//! worker could not.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::str::FromStr as _;
use std::sync::LazyLock;

use fixed_decimal::{Sign, UnsignedDecimal, UnsignedRoundingMode};
use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, Strength};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_decimal::DecimalFormatter;
use icu_decimal::input::Decimal;
use icu_decimal::options::{DecimalFormatterOptions, GroupingStrategy};
use icu_locale_core::Locale;
use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;

use crate::engine::State;
use crate::js::{Args, Ctx, ErrorKind, JsResult, Value};

/// Different collators and number formatters that one program may make; more are made anew each time.
const MAX_CACHED: usize = 64;

/// What a program made and may use again.
#[derive(Default)]
pub(crate) struct Cache {
    collators: RefCell<HashMap<String, CollatorBorrowed<'static>>>,
    decimals: RefCell<HashMap<String, DecimalFormatter>>,
}

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// `canonicalLocale(text)`: the locale's canonical name, or `undefined` if it is none.
pub(crate) fn canonical_locale<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    match Locale::from_str(&args.get(0).to_text()?) {
        Ok(locale) => ctx.string(&locale.to_string()),
        Err(_) => Ok(ctx.undefined()),
    }
}

/// `collate(locale, options, a, b)`: -1, 0 or 1. Options are letters: the strength (`b`ase, `a`ccent, `c`ase, `v`ariant), then
/// `n`umeric, `U`pper or `L`ower first, `p`unctuation ignored.
pub(crate) fn collate<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    let (a, b) = (args.get(2).to_text()?, args.get(3).to_text()?);
    let key = format!("{}/{}", args.get(1).to_text()?, args.get(0).to_text()?);
    let collators = &State::of(ctx).intl.collators;
    let known = collators
        .borrow()
        .get(&key)
        .map(|collator| collator.compare(&a, &b));
    let ordering = match known {
        Some(ordering) => ordering,
        None => {
            let collator = collator(&key).ok_or_else(|| unavailable(ctx, "collation"))?;
            let ordering = collator.compare(&a, &b);
            let mut collators = collators.borrow_mut();
            if collators.len() < MAX_CACHED {
                collators.insert(key, collator);
            }
            ordering
        }
    };
    Ok(ctx.int(match ordering {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }))
}

fn collator(key: &str) -> Option<CollatorBorrowed<'static>> {
    let (letters, locale) = key.split_once('/')?;
    let mut preferences = CollatorPreferences::from(&Locale::from_str(locale).ok()?);
    let mut options = CollatorOptions::default();
    for letter in letters.chars() {
        match letter {
            'b' => options.strength = Some(Strength::Primary),
            'a' => options.strength = Some(Strength::Secondary),
            'c' => {
                options.strength = Some(Strength::Primary);
                options.case_level = Some(CaseLevel::On);
            }
            'v' => options.strength = Some(Strength::Tertiary),
            'n' => preferences.numeric_ordering = Some(CollationNumericOrdering::True),
            'U' => preferences.case_first = Some(CollationCaseFirst::Upper),
            'L' => preferences.case_first = Some(CollationCaseFirst::Lower),
            'p' => options.alternate_handling = Some(AlternateHandling::Shifted),
            _ => {}
        }
    }
    CollatorBorrowed::try_new(preferences, options).ok()
}

/// `roundDecimal(text, minInteger, minFraction, maxFraction, minSignificant, maxSignificant)`: the digits of a non-negative
/// number after rounding half away from zero. Significant digits count where the last argument is not 0.
pub(crate) fn round_decimal<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    let Ok(mut number) = UnsignedDecimal::try_from_str(&args.get(0).to_text()?) else {
        return Err(ctx.throw(ErrorKind::Range, "the number cannot be formatted"));
    };
    let digits = |index| -> JsResult<i16> {
        let value = args.get(index).to_number()?;
        #[expect(clippy::cast_possible_truncation, reason = "clamped to a small range")]
        let digits = value.clamp(0.0, 100.0) as i16;
        Ok(digits)
    };
    let (min_integer, min_fraction, max_fraction) = (digits(1)?, digits(2)?, digits(3)?);
    let (min_significant, max_significant) = (digits(4)?, digits(5)?);
    if max_significant > 0 {
        let lowest = |number: &UnsignedDecimal, digits: i16| number.nonzero_magnitude_start() - digits + 1;
        let position = lowest(&number, max_significant);
        number.round_with_mode(position, UnsignedRoundingMode::HalfExpand);
        number.trim_end();
        let position = lowest(&number, min_significant.max(1));
        number.pad_end(position.min(0));
    } else {
        number.round_with_mode(-max_fraction, UnsignedRoundingMode::HalfExpand);
        number.trim_end();
        number.pad_end(-min_fraction);
    }
    number.trim_start();
    number.pad_start(min_integer.max(1));
    ctx.string(&number.to_string())
}

/// `localDecimal(locale, digits, grouping)`: plain digits as the locale writes them; grouping is `auto`, `always`, `min2` or
/// `never`.
pub(crate) fn local_decimal<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    let Ok(number) = UnsignedDecimal::try_from_str(&args.get(1).to_text()?) else {
        return Err(ctx.throw(ErrorKind::Range, "the number cannot be formatted"));
    };
    let number = Decimal::new(Sign::None, number);
    let key = format!("{}/{}", args.get(2).to_text()?, args.get(0).to_text()?);
    let decimals = &State::of(ctx).intl.decimals;
    if let Some(formatter) = decimals.borrow().get(&key) {
        return ctx.string(&formatter.format_to_string(&number));
    }
    let formatter = decimal_formatter(&key).ok_or_else(|| unavailable(ctx, "number formatting"))?;
    let text = formatter.format_to_string(&number);
    let mut decimals = decimals.borrow_mut();
    if decimals.len() < MAX_CACHED {
        decimals.insert(key, formatter);
    }
    ctx.string(&text)
}

fn decimal_formatter(key: &str) -> Option<DecimalFormatter> {
    let (grouping, locale) = key.split_once('/')?;
    let mut options = DecimalFormatterOptions::default();
    options.grouping_strategy = Some(match grouping {
        "never" => GroupingStrategy::Never,
        "always" => GroupingStrategy::Always,
        "min2" => GroupingStrategy::Min2,
        _ => GroupingStrategy::Auto,
    });
    DecimalFormatter::try_new((&Locale::from_str(locale).ok()?).into(), options).ok()
}

/// `zone(name, ms)`: the offset in seconds, the abbreviation and the zone's own spelling, or `undefined` if there is none.
pub(crate) fn zone<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    let Ok(zone) = ZONES.get(&args.get(0).to_text()?) else {
        return Ok(ctx.undefined());
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "out of range is clamped by the type"
    )]
    let ms = args.get(1).to_number()? as i64;
    let Ok(time) = Timestamp::from_millisecond(ms) else {
        return Ok(ctx.undefined());
    };
    let info = zone.to_offset_info(time);
    let name = zone.iana_name().unwrap_or("UTC").to_owned();
    ctx.array(vec![
        ctx.int(info.offset().seconds()),
        ctx.string(info.abbreviation())?,
        ctx.string(&name)?,
    ])
}

fn unavailable(ctx: Ctx<'_>, what: &str) -> crate::js::Thrown {
    ctx.throw(
        ErrorKind::Range,
        &format!("{what} for this locale is not available in this engine"),
    )
}
