// `Intl` and the `toLocale...` methods: what V8 answers for the forms that programs use, in English first of all.
//
// Numbers and collation work in every locale, since the digits come from ICU4X. Dates know the locales in `dateLocales`; month
// and weekday names are English. What is not known is a RangeError that says so, never a wrong answer. Evaluated when a program
// first asks for any of it.
(function (native) {
  "use strict";

  const { apply, defineProperty } = Reflect;
  const getTime = Date.prototype.getTime;
  const getTimezoneOffset = Date.prototype.getTimezoneOffset;
  const { isNaN, isFinite } = Number;
  const define = (object, name, value) =>
    defineProperty(object, name, { value, writable: true, configurable: true, enumerable: false });
  const unavailable = (what) => {
    throw new RangeError(`${what} not available in this engine: use en-US, or build the text yourself`);
  };

  // ---- locales and options ---------------------------------------------------------------------------------------------

  const DEFAULT = "en-US";
  const canonicalList = (locales) => {
    if (locales === undefined) return [];
    const list = typeof locales === "string" ? [locales] : Array.from(Object(locales));
    return list.map((locale) => {
      if (typeof locale !== "string" && (typeof locale !== "object" || locale === null)) {
        throw new TypeError("Incorrect locale information provided");
      }
      const canonical = native.canonicalLocale(String(locale));
      if (canonical === undefined) throw new RangeError(`Incorrect locale information provided: ${locale}`);
      return canonical;
    });
  };
  const resolveLocale = (locales) => canonicalList(locales)[0] ?? DEFAULT;
  const baseOf = (locale) => locale.split("-u-")[0];
  const languageOf = (locale) => locale.split("-")[0];

  const choose = (options, name, allowed, fallback) => {
    const value = options[name];
    if (value === undefined) return fallback;
    if (!allowed.includes(String(value))) {
      throw new RangeError(`Value ${value} out of range for Intl options property ${name}`);
    }
    return String(value);
  };
  const count = (options, name, least, most, fallback) => {
    const value = options[name];
    if (value === undefined) return fallback;
    const number = Math.floor(Number(value));
    if (!(number >= least && number <= most)) throw new RangeError(`${name} value is out of range.`);
    return number;
  };
  const asOptions = (options) => {
    if (options === undefined) return {};
    if (options === null) throw new TypeError("Cannot convert undefined or null to object");
    return Object(options);
  };

  // ---- collation -------------------------------------------------------------------------------------------------------

  const collation = (locales, options) => {
    options = asOptions(options);
    const locale = resolveLocale(locales);
    const sensitivity = choose(options, "sensitivity", ["base", "accent", "case", "variant"], "variant");
    const caseFirst = choose(options, "caseFirst", ["upper", "lower", "false"], "false");
    const letters =
      sensitivity[0] +
      (options.numeric ? "n" : "") +
      (caseFirst === "upper" ? "U" : caseFirst === "lower" ? "L" : "") +
      (options.ignorePunctuation ? "p" : "");
    return { locale, letters, sensitivity, caseFirst, numeric: Boolean(options.numeric) };
  };

  const localeCompare = (a, b, locales, options) => {
    const { locale, letters } = collation(locales, options);
    return native.collate(locale, letters, a, b);
  };

  // Throws where letters change case in a way of the locale's own.
  const checkCase = (locales) => {
    const locale = resolveLocale(locales);
    if (["tr", "az", "lt"].includes(languageOf(locale))) unavailable(`Letter case in the locale ${locale} is`);
  };

  class Collator {
    #options;
    #compare;

    constructor(locales, options) {
      this.#options = collation(locales, options);
      const { locale, letters } = this.#options;
      this.#compare = (a, b) => native.collate(locale, letters, String(a), String(b));
    }

    get compare() { return this.#compare; }

    resolvedOptions() {
      const { locale, sensitivity, caseFirst, numeric } = this.#options;
      return { locale, usage: "sort", sensitivity, ignorePunctuation: false, collation: "default", numeric, caseFirst };
    }
  }

  // ---- numbers ---------------------------------------------------------------------------------------------------------

  const symbols = {
    USD: "$", EUR: "€", GBP: "£", JPY: "¥", INR: "₹", CNY: "CN¥", KRW: "₩", CAD: "CA$", AUD: "A$", MXN: "MX$", BRL: "R$",
    NZD: "NZ$", HKD: "HK$", TWD: "NT$", ILS: "₪", VND: "₫", PHP: "₱",
  };
  const narrow = {
    CAD: "$", AUD: "$", MXN: "$", NZD: "$", HKD: "$", TWD: "$", CNY: "¥", RUB: "₽", UAH: "₴", TRY: "₺", NGN: "₦", PLN: "zł",
    CZK: "Kč", SEK: "kr", NOK: "kr", DKK: "kr", HUF: "Ft", SGD: "$", ARS: "$", CLP: "$", COP: "$",
  };
  const currencyNames = {
    USD: ["US dollar", "US dollars"], EUR: ["euro", "euros"], GBP: ["British pound", "British pounds"],
    JPY: ["Japanese yen", "Japanese yen"], CAD: ["Canadian dollar", "Canadian dollars"],
    AUD: ["Australian dollar", "Australian dollars"], CHF: ["Swiss franc", "Swiss francs"],
    INR: ["Indian rupee", "Indian rupees"], CNY: ["Chinese yuan", "Chinese yuan"],
  };
  const noCents = ["JPY", "KRW", "VND", "CLP", "ISK", "UGX", "XAF", "XOF", "PYG", "RWF"];
  const compactUnits = [
    [15, "T", "trillion", 12], [12, "T", "trillion", 12], [9, "B", "billion", 9], [6, "M", "million", 6], [3, "K", "thousand", 3],
  ];
  const units = {
    byte: ["byte", "byte", "bytes"], kilobyte: ["kB", "kilobyte", "kilobytes"], megabyte: ["MB", "megabyte", "megabytes"],
    gigabyte: ["GB", "gigabyte", "gigabytes"], terabyte: ["TB", "terabyte", "terabytes"], second: ["sec", "second", "seconds"],
    minute: ["min", "minute", "minutes"], hour: ["hr", "hour", "hours"], day: [["day", "days"], "day", "days"],
    millisecond: ["ms", "millisecond", "milliseconds"], kilometer: ["km", "kilometer", "kilometers"],
    meter: ["m", "meter", "meters"], centimeter: ["cm", "centimeter", "centimeters"], mile: ["mi", "mile", "miles"],
    kilogram: ["kg", "kilogram", "kilograms"], gram: ["g", "gram", "grams"], liter: ["L", "liter", "liters"],
    celsius: ["°C", "degree Celsius", "degrees Celsius"], percent: ["%", "percent", "percent"],
  };

  const numberOptions = (locales, options) => {
    options = asOptions(options);
    const locale = resolveLocale(locales);
    const style = choose(options, "style", ["decimal", "percent", "currency", "unit"], "decimal");
    const notation = choose(options, "notation", ["standard", "compact", "scientific", "engineering"], "standard");
    if (notation === "scientific" || notation === "engineering") unavailable(`The notation ${notation} is`);
    let currency = options.currency;
    if (currency !== undefined) {
      currency = String(currency).toUpperCase();
      if (!/^[A-Z]{3}$/.test(currency)) throw new RangeError(`Invalid currency code : ${options.currency}`);
    }
    if (style === "currency" && currency === undefined) throw new TypeError("Currency code is required with currency style.");
    if (style === "unit") {
      if (options.unit === undefined) throw new TypeError("Unit is required with unit style.");
      if (units[options.unit] === undefined) unavailable(`The unit ${options.unit} is`);
    }
    const cents = style === "currency" ? (noCents.includes(currency) ? 0 : 2) : 0;
    const compact = notation === "compact";
    const defaultMin = style === "currency" && !compact ? cents : 0;
    const defaultMax = style === "currency" && !compact ? cents : style === "percent" ? 0 : 3;
    const minimumIntegerDigits = count(options, "minimumIntegerDigits", 1, 21, 1);
    let minimumFractionDigits = count(options, "minimumFractionDigits", 0, 100, undefined);
    let maximumFractionDigits = count(options, "maximumFractionDigits", 0, 100, undefined);
    const compactRounding =
      compact && minimumFractionDigits === undefined && maximumFractionDigits === undefined &&
      options.minimumSignificantDigits === undefined && options.maximumSignificantDigits === undefined;
    if (minimumFractionDigits === undefined) {
      minimumFractionDigits = maximumFractionDigits === undefined ? defaultMin : Math.min(defaultMin, maximumFractionDigits);
    }
    if (maximumFractionDigits === undefined) {
      maximumFractionDigits = Math.max(defaultMax, minimumFractionDigits);
    } else if (maximumFractionDigits < minimumFractionDigits) {
      throw new RangeError("maximumFractionDigits value is out of range.");
    }
    let minimumSignificantDigits = 0;
    let maximumSignificantDigits = 0;
    if (options.minimumSignificantDigits !== undefined || options.maximumSignificantDigits !== undefined) {
      minimumSignificantDigits = count(options, "minimumSignificantDigits", 1, 21, 1);
      maximumSignificantDigits = count(options, "maximumSignificantDigits", minimumSignificantDigits, 21, 21);
    }
    let grouping = options.useGrouping;
    grouping = grouping === undefined || grouping === true || grouping === "true" ? (compact ? "min2" : "auto")
      : grouping === false || grouping === "false" ? "never" : choose(options, "useGrouping", ["auto", "always", "min2"]);
    return {
      locale, style, notation, currency, minimumIntegerDigits, minimumFractionDigits, maximumFractionDigits,
      minimumSignificantDigits, maximumSignificantDigits, grouping, compactRounding,
      compactDisplay: choose(options, "compactDisplay", ["short", "long"], "short"),
      currencyDisplay: choose(options, "currencyDisplay", ["code", "symbol", "narrowSymbol", "name"], "symbol"),
      currencySign: choose(options, "currencySign", ["standard", "accounting"], "standard"),
      signDisplay: choose(options, "signDisplay", ["auto", "never", "always", "exceptZero", "negative"], "auto"),
      unit: options.unit,
      unitDisplay: choose(options, "unitDisplay", ["short", "narrow", "long"], "short"),
    };
  };

  const plain = (o, digits) =>
    native.roundDecimal(
      digits, o.minimumIntegerDigits, o.minimumFractionDigits, o.maximumFractionDigits, o.minimumSignificantDigits,
      o.maximumSignificantDigits,
    );

  // The digits of a non-negative number as parts.
  const digitParts = (o, rounded) => {
    const text = native.localDecimal(o.locale, rounded, o.grouping);
    const integers = rounded.split(".")[0].length;
    const parts = [];
    let seen = 0;
    for (const c of text) {
      const digit = /\p{Nd}/u.test(c);
      const type = digit ? (seen++ < integers ? "integer" : "fraction") : seen < integers ? "group" : "decimal";
      const last = parts[parts.length - 1];
      if (last !== undefined && last.type === type && digit) last.value += c;
      else parts.push({ type, value: c });
    }
    return parts;
  };

  // Shifts the decimal point of plain digits.
  const shift = (digits, places) => {
    let [mantissa, exponent] = digits.split("e");
    return `${mantissa}e${Number(exponent ?? 0) + places}`;
  };
  const magnitudeOf = (digits) => {
    const text = native.roundDecimal(digits, 1, 0, 100, 0, 0);
    const whole = text.split(".")[0];
    return whole === "0" ? -1 : whole.length - 1;
  };

  const numberParts = (o, value) => {
    let negative;
    let digits;
    if (typeof value === "bigint") {
      negative = value < 0n;
      digits = String(negative ? -value : value);
    } else {
      negative = value < 0 || Object.is(value, -0);
      digits = String(Math.abs(value)).replace("+", "");
    }
    const language = languageOf(o.locale);
    let parts;
    let isZero = false;
    let compactTail = [];
    let rounded;
    if (typeof value === "number" && isNaN(value)) {
      negative = false;
      parts = [{ type: "nan", value: "NaN" }];
    } else if (typeof value === "number" && !isFinite(value)) {
      parts = [{ type: "infinity", value: "∞" }];
    } else {
      if (o.style === "percent") digits = shift(digits, 2);
      if (o.notation === "compact") {
        if (language !== "en") unavailable(`Compact numbers in the locale ${o.locale} are`);
        const round = (d) => {
          if (!o.compactRounding) return plain(o, d);
          const magnitude = magnitudeOf(d);
          const least = o.minimumIntegerDigits;
          return magnitude >= 1 ? native.roundDecimal(d, least, 0, 0, 0, 0) : native.roundDecimal(d, least, 0, 0, 1, 2);
        };
        let power = 0;
        for (;;) {
          const magnitude = magnitudeOf(native.roundDecimal(shift(digits, -power), 1, 0, 100, 0, 0)) + power;
          const unit = compactUnits.find(([least]) => magnitude >= least);
          power = unit === undefined ? 0 : unit[3];
          rounded = round(shift(digits, -power));
          // 999,999 rounds to 1,000K, which is 1M.
          if (power < 12 && magnitudeOf(rounded) >= 3) {
            digits = shift(rounded, power);
            continue;
          }
          if (unit !== undefined) {
            compactTail = o.compactDisplay === "short"
              ? [{ type: "compact", value: unit[1] }]
              : [{ type: "literal", value: " " }, { type: "compact", value: unit[2] }];
          }
          break;
        }
      } else {
        rounded = plain(o, digits);
      }
      isZero = /^[0.]*$/.test(rounded);
      parts = digitParts(o, rounded);
    }
    parts.push(...compactTail);
    if (o.style === "percent") {
      const spaced = ["de", "fr", "es", "sv", "nb", "da", "fi", "cs", "ru", "uk", "sk"];
      const close = ["en", "it", "pt", "nl", "ja", "zh", "ko", "pl", "id", "hi", "th", "vi"];
      if (spaced.includes(language)) parts.push({ type: "literal", value: language === "fr" ? "\u202f" : "\u00a0" });
      else if (!close.includes(language)) unavailable(`Percentages in the locale ${o.locale} are`);
      parts.push({ type: "percentSign", value: "%" });
    } else if (o.style === "currency") {
      parts = withCurrency(o, parts, rounded, language);
    } else if (o.style === "unit") {
      if (language !== "en") unavailable(`Units in the locale ${o.locale} are`);
      const [short, one, many] = units[o.unit];
      const single = rounded === "1";
      const name = o.unitDisplay === "long" ? (single ? one : many) : typeof short === "string" ? short : short[single ? 0 : 1];
      const close = o.unitDisplay === "narrow" || name === "%" || name === "°C";
      parts.push(...(close ? [] : [{ type: "literal", value: " " }]), { type: "unit", value: name });
    }
    const sign = signOf(o, negative, isZero);
    if (sign === "(") return [{ type: "literal", value: "(" }, ...parts, { type: "literal", value: ")" }];
    if (sign === "-") return [{ type: "minusSign", value: "-" }, ...parts];
    if (sign === "+") return [{ type: "plusSign", value: "+" }, ...parts];
    return parts;
  };

  const signOf = (o, negative, isZero) => {
    const minus = o.style === "currency" && o.currencySign === "accounting" ? "(" : "-";
    switch (o.signDisplay) {
      case "never": return "";
      case "always": return negative ? minus : "+";
      case "exceptZero": return isZero ? "" : negative ? minus : "+";
      case "negative": return negative && !isZero ? minus : "";
      default: return negative ? minus : "";
    }
  };

  const withCurrency = (o, parts, rounded, language) => {
    const { currency, currencyDisplay } = o;
    if (currencyDisplay === "name") {
      const names = language === "en" ? currencyNames[currency] : undefined;
      if (names === undefined) unavailable(`The name of the currency ${currency} is`);
      return [...parts, { type: "literal", value: " " }, { type: "currency", value: names[rounded === "1" ? 0 : 1] }];
    }
    const region = o.locale.split("-").find((piece) => /^[A-Z]{2}$/.test(piece));
    const known = language === "en"
      ? region === undefined || region === "US" || ["EUR", "GBP", "INR", "JPY"].includes(currency)
      : language === "de" && (region === undefined || region === "DE");
    if (!known && currencyDisplay !== "code") unavailable(`The currency ${currency} in the locale ${o.locale} is`);
    const symbol = currencyDisplay === "code" ? currency
      : (currencyDisplay === "narrowSymbol" ? narrow[currency] : undefined) ?? symbols[currency] ?? currency;
    const part = { type: "currency", value: symbol };
    if (language === "de") return [...parts, { type: "literal", value: "\u00a0" }, part];
    if (language !== "en") unavailable(`Currencies in the locale ${o.locale} are`);
    return /[A-Za-z]$/.test(symbol) ? [part, { type: "literal", value: "\u00a0" }, ...parts] : [part, ...parts];
  };

  const joined = (parts) => {
    let text = "";
    for (const { value } of parts) text += value;
    return text;
  };
  const asNumeric = (value) => {
    if (typeof value === "bigint" || typeof value === "number") return value;
    if (typeof value === "object" && value !== null) value = value.valueOf();
    return typeof value === "bigint" ? value : Number(value);
  };

  class NumberFormat {
    #options;
    #format;

    constructor(locales, options) {
      this.#options = numberOptions(locales, options);
      this.#format = (value) => joined(numberParts(this.#options, asNumeric(value)));
    }

    get format() { return this.#format; }
    formatToParts(value) { return numberParts(this.#options, asNumeric(value)); }

    resolvedOptions() {
      const o = this.#options;
      return {
        locale: o.locale, numberingSystem: "latn", style: o.style,
        ...(o.style === "currency" && { currency: o.currency, currencyDisplay: o.currencyDisplay, currencySign: o.currencySign }),
        ...(o.style === "unit" && { unit: o.unit, unitDisplay: o.unitDisplay }),
        minimumIntegerDigits: o.minimumIntegerDigits,
        ...(o.maximumSignificantDigits > 0
          ? { minimumSignificantDigits: o.minimumSignificantDigits, maximumSignificantDigits: o.maximumSignificantDigits }
          : { minimumFractionDigits: o.minimumFractionDigits, maximumFractionDigits: o.maximumFractionDigits }),
        useGrouping: o.grouping === "never" ? false : o.grouping, notation: o.notation,
        ...(o.notation === "compact" && { compactDisplay: o.compactDisplay }),
        signDisplay: o.signDisplay, roundingMode: "halfExpand", roundingIncrement: 1, trailingZeroDisplay: "auto",
        roundingPriority: "auto",
      };
    }
  }

  const defaultNumber = numberOptions(undefined, undefined);
  const localNumber = (value, locales, options) =>
    joined(numberParts(locales === undefined && options === undefined ? defaultNumber : numberOptions(locales, options), value));
  // ---- dates -----------------------------------------------------------------------------------------------------------

  const months = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
  ];
  const weekdays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

  // Numeric dates: order, separator, how wide month and day are by default; and the rest of the locale's habits.
  const us = { order: "mdy", separator: "/", month: 1, day: 1, hour12: true, glue: ", ", am: ["AM", "PM"], names: "us" };
  const gb = { ...us, order: "dmy", month: 2, day: 2, hour12: false, am: ["am", "pm"], names: "gb" };
  const iso = { order: "ymd", separator: "-", month: 2, day: 2, hour12: false, glue: " ", am: undefined, names: undefined };
  const dateLocales = {
    "en": us, "en-US": us, "en-GB": gb, "en-IE": { ...gb, month: 1, day: 1, names: undefined }, "en-CA": { ...us, ...iso, glue: ", ", hour12: true, am: ["a.m.", "p.m."] },
    "en-AU": { ...gb, hour12: true, am: ["am", "pm"], names: undefined }, "en-IN": { ...gb, month: 1, day: 1, hour12: true, am: ["am", "pm"], names: undefined },
    "de": { ...iso, order: "dmy", separator: ".", month: 1, day: 1, glue: ", " },
    "fr": { ...iso, order: "dmy", separator: "/" }, "es": { ...iso, order: "dmy", separator: "/", month: 1, day: 1, glue: ", ", thinHour: true },
    "it": { ...iso, order: "dmy", separator: "/", month: 1, day: 1, glue: ", " }, "pt": { ...iso, order: "dmy", separator: "/", glue: ", " },
    "sv": iso, "sv-SE": iso, "ja": { ...iso, separator: "/", month: 1, day: 1, thinHour: true }, "zh": { ...iso, separator: "/", month: 1, day: 1 },
  };
  const dateLocale = (locale) => {
    const base = baseOf(locale);
    const exact = dateLocales[base];
    if (exact !== undefined) return exact;
    const language = languageOf(base);
    // A region of a language may write dates in its own way; only the main one is known.
    const main = { de: ["DE", "AT"], fr: ["FR"], es: ["ES"], it: ["IT"], pt: ["BR", "PT"], ja: ["JP"], zh: ["CN"], sv: ["SE"] }[language];
    if (main !== undefined && main.includes(base.split("-")[1])) return dateLocales[language];
    return unavailable(`Dates in the locale ${locale} are`);
  };

  const dateFields = ["weekday", "year", "month", "day"];
  const timeFields = ["dayPeriod", "hour", "minute", "second", "fractionalSecondDigits"];
  const dateOptions = (locales, options, required, defaults) => {
    options = asOptions(options);
    const locale = resolveLocale(locales);
    const habits = dateLocale(locale);
    const o = { locale, habits };
    for (const [name, values] of [
      ["weekday", ["narrow", "short", "long"]], ["era", ["narrow", "short", "long"]], ["year", ["2-digit", "numeric"]],
      ["month", ["2-digit", "numeric", "narrow", "short", "long"]], ["day", ["2-digit", "numeric"]],
      ["dayPeriod", ["narrow", "short", "long"]], ["hour", ["2-digit", "numeric"]], ["minute", ["2-digit", "numeric"]],
      ["second", ["2-digit", "numeric"]],
      ["timeZoneName", ["short", "long", "shortOffset", "longOffset", "shortGeneric", "longGeneric"]],
      ["hourCycle", ["h11", "h12", "h23", "h24"]], ["dateStyle", ["full", "long", "medium", "short"]],
      ["timeStyle", ["full", "long", "medium", "short"]],
    ]) {
      o[name] = choose(options, name, values, undefined);
    }
    o.fractionalSecondDigits = count(options, "fractionalSecondDigits", 1, 3, undefined);
    if (o.era !== undefined) unavailable("Eras are");
    if (o.dayPeriod !== undefined) unavailable("Day periods are");
    if (options.timeZone !== undefined) {
      o.timeZone = String(options.timeZone);
      const offset = /^([+-])(\d{2})(?::?(\d{2}))?$/.exec(o.timeZone);
      if (offset !== null) {
        o.fixedOffset = (offset[1] === "-" ? -60 : 60) * (Number(offset[2]) * 60 + Number(offset[3] ?? 0));
      } else {
        const zone = native.zone(o.timeZone, 0);
        if (zone === undefined) throw new RangeError(`Invalid time zone specified: ${o.timeZone}`);
        o.timeZone = zone[2];
      }
    }
    const styled = o.dateStyle !== undefined || o.timeStyle !== undefined;
    if (styled) {
      for (const name of [...dateFields, ...timeFields, "timeZoneName"]) {
        if (o[name] !== undefined) {
          throw new TypeError(`Can't set option ${name} when ${o.dateStyle !== undefined ? "dateStyle" : "timeStyle"} is used`);
        }
      }
      if (required === "date" && o.timeStyle !== undefined) throw new TypeError("Invalid option : timeStyle");
      if (required === "time" && o.dateStyle !== undefined) throw new TypeError("Invalid option : dateStyle");
    } else {
      const has = (names) => names.some((name) => o[name] !== undefined);
      const needed = required === "date" ? !has(dateFields) : required === "time" ? !has(timeFields) : !has([...dateFields, ...timeFields]);
      if (needed && defaults !== "time") o.year = o.month = o.day = "numeric";
      if (needed && defaults !== "date") o.hour = o.minute = o.second = "numeric";
    }
    applyStyles(o);
    const h12 = options.hour12;
    if (h12 !== undefined) o.cycle = h12 ? "h12" : habits.hour12 ? "h24" : "h23";
    else o.cycle = o.hourCycle ?? (habits.hour12 ? "h12" : "h23");
    // With hour12: false V8 counts the first hour of the day as 24 where the locale's own clock has twelve hours.
    return o;
  };

  const applyStyles = (o) => {
    const { dateStyle, timeStyle, habits } = o;
    if (dateStyle !== undefined) {
      if (dateStyle !== "short" && habits.names === undefined) unavailable(`The date style ${dateStyle} in the locale ${o.locale} is`);
      o.day = "numeric";
      o.month = { full: "long", long: "long", medium: "short", short: "numeric" }[dateStyle];
      o.year = dateStyle === "short" && habits === us ? "2-digit" : "numeric";
      if (dateStyle === "full") o.weekday = "long";
      if (dateStyle === "short" && habits !== us && habits !== gb) unavailable(`The date style short in the locale ${o.locale} is`);
    }
    if (timeStyle !== undefined) {
      o.hour = "numeric";
      o.minute = "2-digit";
      if (timeStyle !== "short") o.second = "2-digit";
      if (timeStyle === "long") o.timeZoneName = "short";
      if (timeStyle === "full") o.timeZoneName = "long";
    }
  };

  const pad = (number, width) => String(number).padStart(width, "0");
  const named = (list, index, form) =>
    form === "long" ? list[index] : form === "short" ? list[index].slice(0, 3) : list[index][0];

  const offsetOf = (o, ms) => {
    if (o.fixedOffset !== undefined) return [o.fixedOffset, "", ""];
    if (o.timeZone !== undefined) return native.zone(o.timeZone, ms);
    const seconds = -apply(getTimezoneOffset, new Date(ms), []) * 60;
    return [seconds, seconds === 0 ? "UTC" : "", ""];
  };
  const gmt = (seconds) => {
    const minutes = Math.abs(Math.round(seconds / 60));
    if (minutes === 0) return "GMT";
    const tail = minutes % 60 === 0 ? "" : `:${pad(minutes % 60, 2)}`;
    return `GMT${seconds < 0 ? "-" : "+"}${Math.floor(minutes / 60)}${tail}`;
  };
  const american = /^(America|US)\/|^Pacific\/Honolulu$/;
  const longNames = {
    UTC: "Coordinated Universal Time", EST: "Eastern Standard Time", EDT: "Eastern Daylight Time", CST: "Central Standard Time",
    CDT: "Central Daylight Time", MST: "Mountain Standard Time", MDT: "Mountain Daylight Time", PST: "Pacific Standard Time",
    PDT: "Pacific Daylight Time",
  };
  const zoneName = (o, [seconds, abbreviation, name]) => {
    const isUtc = abbreviation === "UTC" && seconds === 0;
    const short = isUtc ? "UTC"
      : o.habits.names === "us" && american.test(name) && /^(E|C|M|P|AK|H)[SD]?T$/.test(abbreviation) ? abbreviation : gmt(seconds);
    if (o.timeZoneName === "short") return short;
    if (o.timeZoneName === "shortOffset") return gmt(seconds);
    const long = o.timeZoneName === "long" ? longNames[short] : undefined;
    return long ?? unavailable(`The ${o.timeZoneName} name of this time zone is`);
  };

  const dateParts = (o, ms) => {
    if (isNaN(ms)) throw new RangeError("Invalid time value");
    const zone = offsetOf(o, ms);
    const t = new Date(ms + zone[0] * 1000);
    const { habits } = o;
    const parts = [];
    const literal = (value) => parts.push({ type: "literal", value });
    const textual = o.month === "long" || o.month === "short" || o.month === "narrow";
    if ((textual || o.weekday !== undefined) && habits.names === undefined) {
      unavailable(`Names of months and days in the locale ${o.locale} are`);
    }
    const year = t.getUTCFullYear();
    const has = (name) => o[name] !== undefined;
    const fields = {
      year: () => (o.year === "2-digit" ? pad(year % 100, 2) : String(year)),
      month: () => textual ? named(months, t.getUTCMonth(), o.month)
        : pad(t.getUTCMonth() + 1, o.month === "2-digit" || (habits.month === 2 && (has("day") || has("year"))) ? 2 : 1),
      day: () => pad(t.getUTCDate(), o.day === "2-digit" || (!textual && habits.day === 2 && has("month")) ? 2 : 1),
      weekday: () => named(weekdays, t.getUTCDay(), o.weekday),
    };
    const put = (name) => parts.push({ type: name, value: fields[name]() });

    // Skeletons that nobody means ("the year and the day") are put together by ICU in ways of its own.
    const odd = textual
      ? has("weekday") && !has("day")
      : (has("year") && has("day") && !has("month")) || (has("weekday") && (has("month") || has("year")) && !has("day"));
    if (odd) unavailable("This choice of date fields is");
    if (textual) {
      const order = (habits.names === "us" ? ["month", "day", "year"] : ["day", "month", "year"]).filter(has);
      if (has("weekday")) {
        put("weekday");
        literal(habits.names === "us" || has("year") ? ", " : " ");
      }
      order.forEach((name, index) => {
        if (index > 0) literal(habits.names === "us" && name === "year" && has("day") ? ", " : " ");
        put(name);
      });
    } else if (has("weekday") && !has("month")) {
      const order = has("day") ? (habits.names === "us" ? ["day", "weekday"] : ["weekday", "day"]) : ["weekday"];
      order.forEach((name, index) => {
        if (index > 0) literal(" ");
        put(name);
      });
    } else {
      if (has("weekday")) {
        put("weekday");
        literal(", ");
      }
      const order = [...habits.order].map((c) => ({ y: "year", m: "month", d: "day" })[c]).filter(has);
      order.forEach((name, index) => {
        if (index > 0) literal(habits.separator);
        put(name);
      });
    }

    const hasTime = has("hour") || has("minute") || has("second") || has("fractionalSecondDigits");
    if (hasTime) {
      if (parts.length > 0) {
        const onlyWeekday = has("weekday") && !has("year") && !has("month") && !has("day");
        const close = onlyWeekday && has("hour") && !has("timeZoneName") && !has("fractionalSecondDigits");
        literal(close ? " " : o.month === "long" ? " at " : habits.glue);
      }
      const hour = t.getUTCHours();
      const times = [];
      const two = o.cycle === "h23" || o.cycle === "h24";
      if (has("hour")) {
        const value = { h12: hour % 12 || 12, h11: hour % 12, h23: hour, h24: hour || 24 }[o.cycle];
        const wide = o.hour === "2-digit" || (two && !habits.thinHour);
        times.push(["hour", pad(value, wide ? 2 : 1)]);
      }
      if (has("minute")) times.push(["minute", pad(t.getUTCMinutes(), has("hour") || has("second") ? 2 : 1)]);
      if (has("second")) times.push(["second", pad(t.getUTCSeconds(), has("minute") ? 2 : 1)]);
      times.forEach(([type, value], index) => {
        if (index > 0) literal(":");
        parts.push({ type, value });
      });
      if (has("fractionalSecondDigits")) {
        if (times.length > 0) literal(".");
        parts.push({ type: "fractionalSecond", value: pad(t.getUTCMilliseconds(), 3).slice(0, o.fractionalSecondDigits) });
      }
      if (has("hour") && !two) {
        if (habits.am === undefined) unavailable(`A clock of twelve hours in the locale ${o.locale} is`);
        literal(" ");
        parts.push({ type: "dayPeriod", value: habits.am[hour < 12 ? 0 : 1] });
      }
    }
    if (has("timeZoneName")) {
      literal(hasTime ? " " : ", ");
      parts.push({ type: "timeZoneName", value: zoneName(o, zone) });
    }
    return parts;
  };

  const timeOf = (value) =>
    value === undefined ? Date.now() : native.classOf(value) === "Date" ? apply(getTime, value, []) : Number(value);

  class DateTimeFormat {
    #options;
    #format;

    constructor(locales, options) {
      this.#options = dateOptions(locales, options, "any", "date");
      this.#format = (value) => joined(dateParts(this.#options, timeOf(value)));
    }

    get format() { return this.#format; }
    formatToParts(value) { return dateParts(this.#options, timeOf(value)); }

    formatRange(from, to) {
      const [a, b] = [this.#format(from), this.#format(to)];
      return a === b ? a : unavailable("Ranges of dates are");
    }

    resolvedOptions() {
      const o = this.#options;
      const resolved = { locale: o.locale, calendar: "gregory", numberingSystem: "latn", timeZone: o.timeZone ?? localZone() };
      for (const name of ["weekday", "year", "month", "day", "hour", "minute", "second", "timeZoneName", "dateStyle", "timeStyle"]) {
        if (o[name] !== undefined) resolved[name] = o[name];
      }
      return resolved;
    }
  }
  const localZone = () => {
    const minutes = apply(getTimezoneOffset, new Date(), []);
    if (minutes === 0) return "UTC";
    return minutes % 60 === 0 ? `Etc/GMT${minutes > 0 ? "+" : "-"}${Math.abs(minutes / 60)}` : "UTC";
  };

  const localDate = (ms, locales, options, required, defaults) => {
    const resolved = dateOptions(locales, options, required, defaults);
    return isNaN(ms) ? "Invalid Date" : joined(dateParts(resolved, ms));
  };

  // ---- words -----------------------------------------------------------------------------------------------------------

  const english = (locales, what) => {
    const locale = resolveLocale(locales);
    if (languageOf(locale) !== "en") unavailable(`${what} in the locale ${locale} are`);
    return locale;
  };

  class PluralRules {
    #locale;
    #type;

    constructor(locales, options) {
      this.#locale = english(locales, "Plural rules");
      this.#type = choose(asOptions(options), "type", ["cardinal", "ordinal"], "cardinal");
    }

    select(number) {
      number = Number(number);
      if (this.#type === "cardinal") return number === 1 ? "one" : "other";
      const [tens, ones] = [Math.abs(number) % 100, Math.abs(number) % 10];
      if (ones === 1 && tens !== 11) return "one";
      if (ones === 2 && tens !== 12) return "two";
      return ones === 3 && tens !== 13 ? "few" : "other";
    }

    resolvedOptions() { return { locale: this.#locale, type: this.#type }; }
  }

  class ListFormat {
    #locale;
    #word;
    #style;

    constructor(locales, options) {
      options = asOptions(options);
      this.#locale = english(locales, "Lists");
      this.#style = choose(options, "style", ["long", "short", "narrow"], "long");
      const type = choose(options, "type", ["conjunction", "disjunction", "unit"], "conjunction");
      this.#word = { conjunction: this.#style === "long" ? "and" : "&", disjunction: "or", unit: "" }[type];
    }

    format(list) {
      const items = Array.from(list, String);
      const word = this.#word;
      if (items.length < 2) return items.join("");
      if (word === "") return items.join(this.#style === "narrow" ? " " : ", ");
      if (items.length === 2) return `${items[0]} ${word} ${items[1]}`;
      return `${items.slice(0, -1).join(", ")}, ${word} ${items.at(-1)}`;
    }

    resolvedOptions() { return { locale: this.#locale, style: this.#style }; }
  }

  const relativeWords = {
    day: { "-1": "yesterday", 0: "today", 1: "tomorrow" }, year: { "-1": "last year", 0: "this year", 1: "next year" },
    month: { "-1": "last month", 0: "this month", 1: "next month" }, week: { "-1": "last week", 0: "this week", 1: "next week" },
    quarter: { "-1": "last quarter", 0: "this quarter", 1: "next quarter" }, hour: { 0: "this hour" },
    minute: { 0: "this minute" }, second: { 0: "now" },
  };
  class RelativeTimeFormat {
    #locale;
    #auto;
    #numbers = new NumberFormat("en-US");

    constructor(locales, options) {
      options = asOptions(options);
      this.#locale = english(locales, "Relative times");
      this.#auto = choose(options, "numeric", ["always", "auto"], "always") === "auto";
      if (choose(options, "style", ["long", "short", "narrow"], "long") !== "long") unavailable("Short relative times are");
    }

    format(value, unit) {
      value = Number(value);
      if (!isFinite(value)) throw new RangeError("Invalid value for Intl.RelativeTimeFormat.prototype.format()");
      unit = String(unit).replace(/s$/, "");
      if (relativeWords[unit] === undefined) throw new RangeError(`Invalid unit argument for format() '${unit}'`);
      const word = this.#auto ? relativeWords[unit][value] : undefined;
      if (word !== undefined) return word;
      const amount = Math.abs(value);
      const text = `${this.#numbers.format(amount)} ${unit}${amount === 1 ? "" : "s"}`;
      return value < 0 || Object.is(value, -0) ? `${text} ago` : `in ${text}`;
    }

    resolvedOptions() { return { locale: this.#locale, style: "long", numeric: this.#auto ? "auto" : "always" }; }
  }

  // ---- the object ------------------------------------------------------------------------------------------------------

  const Intl = {};
  for (const [name, constructor] of Object.entries({ Collator, DateTimeFormat, ListFormat, NumberFormat, PluralRules, RelativeTimeFormat })) {
    // Unlike other classes, these may be called without `new`.
    const callable = ["Collator", "DateTimeFormat", "NumberFormat"].includes(name)
      ? new Proxy(constructor, { apply: (target, _, args) => new target(...args) })
      : constructor;
    define(constructor, "supportedLocalesOf", (locales) => canonicalList(locales));
    defineProperty(constructor.prototype, Symbol.toStringTag, { value: `Intl.${name}`, configurable: true });
    if (callable !== constructor) define(constructor.prototype, "constructor", callable);
    define(Intl, name, callable);
  }
  for (const name of ["DisplayNames", "DurationFormat", "Locale", "Segmenter"]) {
    define(Intl, name, {
      [name]: function () {
        throw new TypeError(`Intl.${name} is not available in this engine`);
      },
    }[name]);
  }
  define(Intl, "getCanonicalLocales", (locales) => canonicalList(locales));
  defineProperty(Intl, Symbol.toStringTag, { value: "Intl", configurable: true });
  return { Intl, checkCase, localeCompare, localNumber, localDate };
})
