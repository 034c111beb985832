package usage

import (
	"cmp"
	"maps"
	"math"
	"math/big"
	"slices"
	"time"
)

// Prices are what a host says that models cost, as of a date. Nothing is priced that it does not name. They must not be
// changed once they are in use.
type Prices struct {
	// Currency is the code of ISO 4217, such as USD.
	Currency string
	// Date is the day that the prices are of.
	Date time.Time
	// Models are the prices of models by name. A "*" in a name stands for any characters. Of several names that match,
	// the one with the most other characters counts.
	Models map[string]ModelPrices
}

// ModelPrices are those of one model.
type ModelPrices struct {
	TierPrices
	// Tiers are the rates of tiers, by the name that the API has for them. A tier without is priced as if it were none.
	Tiers map[string]TierPrices
	// Tools are the prices of one request of the API's own tools, in millionths of the currency.
	Tools map[Tool]int64
}

// TierPrices are those of one tier of a model, or of none.
type TierPrices struct {
	Rates
	// Above are the rates of calls with long input. Those with the largest threshold that the input exceeds count.
	Above []LongRates
}

// LongRates are the rates of calls with more than so many tokens of input.
type LongRates struct {
	Input int64
	Rates
}

// Rates are the prices of a million tokens of each class, in millionths of the currency. Those of caches and of
// modalities are that of input or output unless they are set.
type Rates struct {
	Input, Output                                     int64
	CacheWrite, CacheWrite5m, CacheWrite1h, CacheRead *int64
	Modalities                                        map[Modality]ModalityRates
}

// ModalityRates are the prices of tokens that are no text.
type ModalityRates struct{ Input, CacheRead, Output *int64 }

// Million is how many tokens a rate is for.
const million = 1_000_000

// A Cost is what a usage costs, in millionths of the currency, rounded up. Unpriced names what has no price and was
// taken to cost nothing, or what its tier's were not found for: "model", "tier", or a tool; it is empty if all has one.
type Cost struct {
	Amount   int64
	Unpriced string
}

// Cost returns what the model's usage costs.
func (p *Prices) Cost(model string, u Usage) Cost {
	prices, ok := p.model(model)
	if !ok {
		return Cost{Unpriced: "model"}
	}
	tier, unpriced := prices.tier(u.Tier)
	rates := tier.of(u.TokensIn())
	var total amount
	rates.add(&total, &u)
	for tool, requests := range u.Tools {
		price, ok := prices.Tools[Tool(tool)]
		if requests > 0 && !ok {
			unpriced = cmp.Or(unpriced, toolNames[tool])
		}
		total.add(requests, product(price, million))
	}
	return Cost{Amount: total.up(), Unpriced: unpriced}
}

// Most returns the most that a call within the bound can cost, whatever class its tokens are of and whatever tier it is
// served in. If one of the API's own tools has a price and its requests no bound, ok is false. A model without a price
// costs nothing.
func (p *Prices) Most(model string, b Bound) (most int64, ok bool) {
	prices, _ := p.model(model)
	var total amount
	in, out := prices.dearest(b.Input)
	total.add(b.Input, in)
	total.add(b.Output, out)
	dearest := int64(0)
	for _, price := range prices.Tools {
		dearest = max(dearest, price)
	}
	if dearest > 0 && b.ToolRequests < 0 {
		return 0, false
	}
	total.add(max(0, b.ToolRequests), product(dearest, million))
	return total.up(), true
}

// Has reports whether the model has a price.
func (p *Prices) Has(model string) bool {
	_, ok := p.model(model)
	return ok
}

func (p *Prices) model(model string) (ModelPrices, bool) {
	if p == nil {
		return ModelPrices{}, false
	}
	return Best(p.Models, model)
}

// ordinary are the names of the tiers that are none.
var ordinary = []string{"", "standard", "default", "auto", "on_demand"}

// tier returns the prices of a tier, and what has none.
func (m *ModelPrices) tier(name string) (TierPrices, string) {
	if tier, ok := m.Tiers[name]; ok {
		return tier, ""
	}
	if slices.Contains(ordinary, name) {
		return m.TierPrices, ""
	}
	return m.TierPrices, "tier"
}

func (t *TierPrices) of(input int64) Rates {
	rates, threshold := t.Rates, int64(-1)
	for _, long := range t.Above {
		if input > long.Input && long.Input > threshold {
			rates, threshold = long.Rates, long.Input
		}
	}
	return rates
}

// add adds what the tokens cost. Tokens that are no text are a part of their class, at their own rate.
func (r *Rates) add(total *amount, u *Usage) {
	input, cacheRead, output := u.Input, u.CacheRead, u.Output
	for m := range modalities {
		rates := r.Modalities[m]
		total.addPart(&input, u.InputBy[m], rates.Input)
		total.addPart(&cacheRead, u.CacheReadBy[m], cmp.Or(rates.CacheRead, rates.Input))
		total.addPart(&output, u.OutputBy[m], rates.Output)
	}
	total.add(input, r.Input)
	total.add(cacheRead, or(r.CacheRead, r.Input))
	total.add(output, r.Output)
	total.add(u.CacheWrite5m, or(r.CacheWrite5m, r.anyWrite()))
	total.add(u.CacheWrite1h, or(r.CacheWrite1h, r.anyWrite()))
	total.add(u.CacheWrite, r.write())
}

// anyWrite is the rate of a write that has none for its lifetime.
func (r *Rates) anyWrite() int64 { return or(r.CacheWrite, r.Input) }

// write is the rate of a write whose lifetime is not told: the dearest, unless it has one.
func (r *Rates) write() int64 {
	return or(r.CacheWrite, max(r.Input, or(r.CacheWrite5m, 0), or(r.CacheWrite1h, 0)))
}

func or(rate *int64, otherwise int64) int64 {
	if rate == nil {
		return otherwise
	}
	return *rate
}

// dearest returns the highest rates that a call with at most so much input can have.
func (m *ModelPrices) dearest(input int64) (in, out int64) {
	for _, tier := range append(slices.Collect(maps.Values(m.Tiers)), m.TierPrices) {
		for _, long := range append([]LongRates{{-1, tier.Rates}}, tier.Above...) {
			if input > long.Input {
				dearIn, dearOut := long.dearest()
				in, out = max(in, dearIn), max(out, dearOut)
			}
		}
	}
	return in, out
}

func (r *Rates) dearest() (in, out int64) {
	in = max(r.Input, r.write(), or(r.CacheWrite5m, 0), or(r.CacheWrite1h, 0), or(r.CacheRead, 0))
	out = r.Output
	for _, m := range r.Modalities {
		in, out = max(in, or(m.Input, 0), or(m.CacheRead, 0)), max(out, or(m.Output, 0))
	}
	return in, out
}

// An amount is money before it is divided by a million: the sum of products.
type amount struct{ big.Int }

func (a *amount) add(tokens, rate int64) {
	a.Add(&a.Int, new(big.Int).Mul(big.NewInt(tokens), big.NewInt(rate)))
}

// addPart adds the part of a class that has a rate of its own, if it has, and takes it from the class.
func (a *amount) addPart(class *int64, tokens int64, rate *int64) {
	if rate != nil {
		tokens = min(tokens, *class)
		*class -= tokens
		a.add(tokens, *rate)
	}
}

// up divides by a million, and rounds up. What is too much is the largest number.
func (a *amount) up() int64 {
	a.Add(&a.Int, big.NewInt(million-1))
	if a.Quo(&a.Int, big.NewInt(million)); !a.IsInt64() {
		return math.MaxInt64
	}
	return a.Int64()
}
