package config

import (
	"slices"
	"strconv"
	"strings"
)

// fractions is the kind of a list of different fractions between 0 and 1.
type fractions struct {
	field    func(*Config) *[]float64
	fallback []float64 // the default
}

// maxFractions is more warnings than anyone reads.
const maxFractions = 100

// fromVariable does not split a single 0: it means no fractions.
func (f fractions) fromVariable(text string) value {
	if text == "0" {
		return fromText(text)
	}
	return fromList(text)
}

func (f fractions) set(c *Config, v value) *invalidValue {
	switch {
	case v.unsupported != "":
		return v.invalid(v.unsupported)
	case v.quoted:
		return v.invalid("is quoted; write the number without quotes")
	case !v.list && v.text != "0":
		return v.invalid("is not a list")
	case len(v.items) > maxFractions:
		return v.invalid("has more than 100 fractions")
	}
	list := make([]float64, 0, len(v.items))
	for _, item := range v.items {
		fraction, problem := parseFraction(item)
		if problem == "" && slices.Contains(list, fraction) {
			problem = "is a duplicate"
		}
		if problem != "" {
			return item.invalid(problem)
		}
		list = append(list, fraction)
	}
	*f.field(c) = list
	return nil
}

func parseFraction(v value) (fraction float64, problem string) {
	if problem := numberProblem(v); problem != "" {
		return 0, problem
	}
	fraction, err := strconv.ParseFloat(v.text, 64)
	if err != nil || fraction <= 0 || fraction >= 1 {
		return 0, "is not between 0 and 1"
	}
	return fraction, ""
}

func (f fractions) show(c *Config) string {
	list := *f.field(c)
	switch {
	case f.off(c):
		return "off"
	case list == nil:
		list = f.fallback
	}
	var items []string
	for _, fraction := range list {
		items = append(items, strconv.FormatFloat(fraction, 'g', -1, 64))
	}
	return strings.Join(items, ", ")
}

func (f fractions) disable(c *Config) { *f.field(c) = []float64{} }

func (f fractions) off(c *Config) bool {
	list := *f.field(c)
	return list != nil && len(list) == 0
}

// spendWarnings is the kind of the fractions of all counted limits. Without one there are no warnings.
type spendWarnings struct{ fractions }

func (w spendWarnings) show(c *Config) string {
	if *w.field(c) == nil && !c.limitsSpend() {
		return "off"
	}
	return w.fractions.show(c)
}

func (w spendWarnings) disable(c *Config) { *w.field(c) = nil }
