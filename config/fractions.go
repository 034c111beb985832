package config

import (
	"slices"
	"strconv"
	"strings"
)

// fractions is the kind of a list of fractions, each more than 0 and less than 1 and none twice.
type fractions struct {
	field    func(*Config) *[]float64
	standard []float64 // the default
}

// maxFractions is more warnings than anyone reads.
const maxFractions = 100

// fromVariable leaves 0 by itself as it is: it says that there are none.
func (f fractions) fromVariable(text string) value {
	if text == "0" {
		return written(text)
	}
	return separated(text)
}

func (f fractions) set(c *Config, v value) *flaw {
	switch {
	case v.odd != "":
		return v.flaw(v.odd)
	case v.quoted:
		return v.flaw("is quoted; write the number without quotes")
	case !v.list && v.text != "0":
		return v.flaw("is not a list")
	case len(v.items) > maxFractions:
		return v.flaw("has more than 100 fractions")
	}
	list := make([]float64, 0, len(v.items))
	for _, item := range v.items {
		fraction, problem := parseFraction(item)
		if problem == "" && slices.Contains(list, fraction) {
			problem = "is there twice"
		}
		if problem != "" {
			return item.flaw(problem)
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
		list = f.standard
	}
	var items []string
	for _, fraction := range list {
		items = append(items, strconv.FormatFloat(fraction, 'g', -1, 64))
	}
	return strings.Join(items, ", ")
}

func (f fractions) rest(c *Config) { *f.field(c) = []float64{} }

func (f fractions) off(c *Config) bool {
	list := *f.field(c)
	return list != nil && len(list) == 0
}
