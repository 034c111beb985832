package usage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ReadPrices reads the JSON of prices:
//
//	{
//	  "currency": "USD",
//	  "date": "2026-08-01",
//	  "models": {
//	    "some-model-*": {
//	      "input": 3000000, "cache_write_5m": 3750000, "cache_write_1h": 6000000, "cache_read": 300000,
//	      "output": 15000000,
//	      "modalities": {"audio": {"input": 10000000, "cache_read": 1000000, "output": 40000000}},
//	      "above": [{"input_tokens": 200000, "input": 6000000, "output": 22500000}],
//	      "tiers": {"priority": {"input": 6000000, "output": 30000000}},
//	      "tools": {"web_search": 10000}
//	    }
//	  }
//	}
//
// Prices are whole millionths of the currency, for a million tokens or for one request of a tool. Each set of rates has
// input and output. The currency has to be the one that the host's limit is in, if it names one. An error names the
// place, the value and what would be right.
func ReadPrices(text []byte, currency string) (*Prices, error) {
	file := &priceFile{}
	root := file.object("", text)
	p := &Prices{Currency: file.currency(root, currency), Date: file.date(root), Models: map[string]ModelPrices{}}
	models := file.object("models", file.take(root, "", "models"))
	for _, name := range sorted(models) {
		if name == "" {
			file.fail("models", "a model has no name; name it, or * for all")
		}
		p.Models[name] = file.model(place("models", name), models[name])
	}
	file.nothingElse("", root)
	if file.err != nil {
		return nil, fmt.Errorf("read prices: %w", file.err)
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

func place(in, name string) string {
	if in == "" {
		return name
	}
	return fmt.Sprintf("%s.%q", in, name)
}

// object reads an object. A key that is there twice is a mistake.
func (f *priceFile) object(where string, text []byte) map[string]json.RawMessage {
	members := map[string]json.RawMessage{}
	if text == nil {
		return members
	}
	text = bytes.TrimSpace(text)
	if !json.Valid(text) || text[0] != '{' {
		f.fail(nameOf(where), "is no JSON object; write one")
		return members
	}
	value(text).members(func(key string, member value) {
		if _, twice := members[key]; twice {
			f.fail(place(where, key), "is there twice; keep one")
		}
		members[key] = json.RawMessage(member)
	})
	return members
}

func nameOf(where string) string {
	if where == "" {
		return "the file"
	}
	return where
}

// take takes a member that has to be there.
func (f *priceFile) take(from map[string]json.RawMessage, where, name string) []byte {
	member, ok := from[name]
	if !ok {
		f.fail(place(where, name), "is missing")
		return nil
	}
	delete(from, name)
	return member
}

// nothingElse fails for what is left.
func (f *priceFile) nothingElse(where string, left map[string]json.RawMessage) {
	for _, name := range sorted(left) {
		f.fail(place(where, name), "is not known here; correct or remove it")
	}
}

func sorted(members map[string]json.RawMessage) []string { return slices.Sorted(maps.Keys(members)) }

func (f *priceFile) currency(root map[string]json.RawMessage, want string) string {
	text := f.text("currency", f.take(root, "", "currency"))
	switch {
	case len(text) != 3 || strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "":
		f.fail("currency", "is %q; write a code such as USD", text)
	case want != "" && text != want:
		f.fail("currency", "is %s, and the limit is in %s; use prices in %s", text, want, want)
	}
	return text
}

func (f *priceFile) date(root map[string]json.RawMessage) time.Time {
	text := f.text("date", f.take(root, "", "date"))
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		f.fail("date", "is %q; write the day that the prices are of, as in 2026-08-01", text)
	}
	return day
}

func (f *priceFile) text(where string, member []byte) (text string) {
	if member != nil && json.Unmarshal(member, &text) != nil {
		f.fail(where, "is %s; write a text", member)
	}
	return text
}

func (f *priceFile) model(where string, text []byte) (m ModelPrices) {
	members := f.object(where, text)
	m.Rates, m.Above = f.rates(where, members), f.above(where, members)
	m.Tiers = map[string]TierPrices{}
	tiers := f.optional(where, members, "tiers")
	for _, name := range sorted(tiers) {
		in := place(where+".tiers", name)
		tier := f.object(in, tiers[name])
		m.Tiers[name] = TierPrices{Rates: f.rates(in, tier), Above: f.above(in, tier)}
		f.nothingElse(in, tier)
	}
	m.Tools = map[Tool]int64{}
	toolPrices := f.optional(where, members, "tools")
	for _, name := range sorted(toolPrices) {
		tool := toolNamed([]byte(name))
		if tool.String() != name {
			f.fail(place(where+".tools", name), "is no tool that is known; use one of %s", strings.Join(toolNames[:], ", "))
		}
		m.Tools[tool] = f.price(place(where+".tools", name), toolPrices[name])
	}
	f.nothingElse(where, members)
	return m
}

// optional takes an object that need not be there.
func (f *priceFile) optional(where string, members map[string]json.RawMessage, name string) map[string]json.RawMessage {
	member := members[name]
	delete(members, name)
	return f.object(where+"."+name, member)
}

func (f *priceFile) rates(where string, members map[string]json.RawMessage) (r Rates) {
	r.Input = f.price(place(where, "input"), f.take(members, where, "input"))
	r.Output = f.price(place(where, "output"), f.take(members, where, "output"))
	r.CacheWrite = f.optionalPrice(where, members, "cache_write")
	r.CacheWrite5m = f.optionalPrice(where, members, "cache_write_5m")
	r.CacheWrite1h = f.optionalPrice(where, members, "cache_write_1h")
	r.CacheRead = f.optionalPrice(where, members, "cache_read")
	by := f.optional(where, members, "modalities")
	r.Modalities = map[Modality]ModalityRates{}
	for _, name := range sorted(by) {
		in := place(where+".modalities", name)
		m, known := modalityNamed([]byte(name))
		if !known || m.String() != name {
			f.fail(in, "is no modality that is known; use one of %s", strings.Join(modalityNames[:], ", "))
		}
		rates := f.object(in, by[name])
		r.Modalities[m] = ModalityRates{
			Input: f.optionalPrice(in, rates, "input"), CacheRead: f.optionalPrice(in, rates, "cache_read"),
			Output: f.optionalPrice(in, rates, "output"),
		}
		f.nothingElse(in, rates)
	}
	return r
}

func (f *priceFile) above(where string, members map[string]json.RawMessage) (above []LongRates) {
	member := members["above"]
	delete(members, "above")
	if member == nil {
		return nil
	}
	where += ".above"
	if member[0] != '[' {
		f.fail(where, "is %s; write a list of rates with input_tokens", member)
		return nil
	}
	value(member).elements(func(element value) {
		in := fmt.Sprintf("%s[%d]", where, len(above))
		rates := f.object(in, element)
		long := LongRates{Input: f.price(place(in, "input_tokens"), f.take(rates, in, "input_tokens"))}
		long.Rates = f.rates(in, rates)
		f.nothingElse(in, rates)
		above = append(above, long)
	})
	return above
}

func (f *priceFile) optionalPrice(where string, members map[string]json.RawMessage, name string) *int64 {
	member, ok := members[name]
	if !ok {
		return nil
	}
	delete(members, name)
	price := f.price(place(where, name), member)
	return &price
}

// mostPrice is far above any price, and low enough that a price for one request can be multiplied by a million.
const mostPrice = 1_000_000_000_000

func (f *priceFile) price(where string, member []byte) int64 {
	if member == nil {
		return 0
	}
	n, ok := value(member).number()
	if !ok || n > mostPrice {
		f.fail(where, "is %s; write a whole number of millionths of the currency, from 0 to %d", member, int64(mostPrice))
	}
	return n
}
