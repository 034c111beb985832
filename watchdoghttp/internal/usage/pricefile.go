package usage

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ReadPrices reads the JSON of prices, in the form that the documentation of package watchdoghttp shows. The currency
// has to be the one that the host's limit is in, if it names one. An error names the place, the value and what would be
// right.
func ReadPrices(text []byte, currency string) (*Prices, error) {
	f := &priceFile{}
	p := &Prices{Models: map[string]ModelPrices{}}
	v := value(bytes.TrimSpace(text))
	if !json.Valid(v) {
		v = value("null")
	}
	f.object("", v, takers{
		"currency!": func(where, _ string, v value) { p.Currency = f.currency(where, v, currency) },
		"date!":     func(where, _ string, v value) { p.Date = f.date(where, v) },
		"models!": f.each(func(where, name string, v value) {
			if name == "" {
				f.fail("models", "a model has no name; name it, or * for all")
			}
			p.Models[name] = f.model(where, v)
		}),
	})
	if f.err != nil {
		return nil, fmt.Errorf("read prices: %w", f.err)
	}
	return p, nil
}

// A priceFile is a file of prices while it is read. Its first mistake is kept.
type priceFile struct{ err error }

func (f *priceFile) fail(where, format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("%s: %s", where, fmt.Sprintf(format, args...))
	}
}

// A taker takes the value of a member of an object, by where that is and its name.
type taker func(where, name string, v value)

// takers are those of an object. A name that ends with an exclamation mark has to be there; a star is any name.
type takers map[string]taker

// object reads an object. A key that is there twice is a mistake.
func (f *priceFile) object(where string, v value, known takers) {
	if v[0] != '{' {
		f.fail(cmp.Or(where, "the file"), "is no JSON object; write one")
		return
	}
	for name := range known {
		if name, must := strings.CutSuffix(name, "!"); must && !hasMember(v, name) {
			f.fail(join(where, name), "is missing")
		}
	}
	seen := map[string]bool{}
	v.members(func(name string, member value) {
		take, in := known[name], join(where, name)
		if take == nil {
			take = known[name+"!"]
		}
		if each := known["*"]; each != nil {
			take, in = each, join(where, strconv.Quote(name))
		}
		switch {
		case seen[name]:
			f.fail(in, "is there twice; keep one")
		case take == nil:
			f.fail(in, "is not known here; correct or remove it")
		default:
			take(in, name, member)
		}
		seen[name] = true
	})
}

func join(where, name string) string { return strings.TrimPrefix(where+"."+name, ".") }

func (f *priceFile) each(take taker) taker {
	return func(where, _ string, v value) { f.object(where, v, takers{"*": take}) }
}

func (f *priceFile) text(where string, v value) (text string) {
	if json.Unmarshal(v, &text) != nil {
		f.fail(where, "is %s; write a text", v)
	}
	return text
}

func (f *priceFile) currency(where string, v value, want string) string {
	text := f.text(where, v)
	switch {
	case len(text) != 3 || strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "":
		f.fail(where, "is %q; write a code such as USD", text)
	case want != "" && text != want:
		f.fail(where, "is %s, and the limit is in %s; use prices in %s", text, want, want)
	}
	return text
}

func (f *priceFile) date(where string, v value) time.Time {
	text := f.text(where, v)
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		f.fail(where, "is %q; write the day that the prices are of, as in 2026-08-01", text)
	}
	return day
}

func (f *priceFile) model(where string, v value) ModelPrices {
	m := ModelPrices{Tiers: map[string]TierPrices{}, Tools: map[Tool]int64{}}
	known := f.tier(&m.TierPrices)
	known["tiers"] = f.each(func(where, name string, v value) {
		var tier TierPrices
		f.object(where, v, f.tier(&tier))
		m.Tiers[name] = tier
	})
	known["tools"] = f.each(func(where, name string, v value) {
		tool := slices.Index(toolNames[:], name)
		if tool < 0 {
			f.fail(where, "is no tool that is known; use one of %s", strings.Join(toolNames[:], ", "))
		}
		m.Tools[Tool(tool)] = f.price(where, v)
	})
	f.object(where, v, known)
	return m
}

func (f *priceFile) tier(t *TierPrices) takers {
	known := f.rates(&t.Rates)
	known["above"] = func(where, _ string, v value) {
		if v[0] != '[' {
			f.fail(where, "is %s; write a list of rates with input_tokens", v)
			return
		}
		v.elements(func(element value) {
			var long LongRates
			known := f.rates(&long.Rates)
			known["input_tokens!"] = func(where, _ string, v value) { long.Input = f.price(where, v) }
			f.object(fmt.Sprintf("%s[%d]", where, len(t.Above)), element, known)
			t.Above = append(t.Above, long)
		})
	}
	return known
}

func (f *priceFile) rates(r *Rates) takers {
	r.Modalities = map[Modality]ModalityRates{}
	return takers{
		"input!":         func(where, _ string, v value) { r.Input = f.price(where, v) },
		"output!":        func(where, _ string, v value) { r.Output = f.price(where, v) },
		"cache_write":    f.optional(&r.CacheWrite),
		"cache_write_5m": f.optional(&r.CacheWrite5m),
		"cache_write_1h": f.optional(&r.CacheWrite1h),
		"cache_read":     f.optional(&r.CacheRead),
		"modalities": f.each(func(where, name string, v value) {
			m := slices.Index(modalityNames[:], name)
			if m < 0 {
				f.fail(where, "is no modality that is known; use one of %s", strings.Join(modalityNames[:], ", "))
			}
			var rates ModalityRates
			f.object(where, v, takers{
				"input": f.optional(&rates.Input), "cache_read": f.optional(&rates.CacheRead),
				"output": f.optional(&rates.Output),
			})
			r.Modalities[Modality(m)] = rates
		}),
	}
}

func (f *priceFile) optional(to **int64) taker {
	return func(where, _ string, v value) {
		price := f.price(where, v)
		*to = &price
	}
}

// mostPrice is far above any price, and low enough that a price for one request can be multiplied by a million.
const mostPrice = 1_000_000_000_000

func (f *priceFile) price(where string, v value) int64 {
	n, ok := v.number()
	if !ok || n > mostPrice {
		f.fail(where, "is %s; write a whole number of millionths of the currency, from 0 to %d", v, int64(mostPrice))
	}
	return n
}
