package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/seed62658d38/watchdog"
)

// money is the kind of an amount of money with its currency, exact to the micro-unit. 0 is none, and needs no currency.
type money struct {
	micros   func(*Config) *int64
	currency func(*Config) *string
}

func (m money) fromVariable(text string) value { return fromText(text) }

func (m money) set(c *Config, v value) *invalidValue {
	micros, currency, problem := parseMoney(v)
	if problem != "" {
		return v.invalid(problem)
	}
	*m.micros(c), *m.currency(c) = micros, currency
	return nil
}

func (m money) show(c *Config) string {
	if m.off(c) {
		return "off"
	}
	micros := *m.micros(c)
	decimals := fmt.Sprintf("%06d", micros%1e6)
	decimals = decimals[:2] + strings.TrimRight(decimals[2:], "0")
	return strings.TrimSpace(fmt.Sprintf("%d.%s %s", micros/1e6, decimals, *m.currency(c)))
}

func (m money) off(c *Config) bool { return *m.micros(c) == 0 || *m.micros(c) == watchdog.NoLimit }
func (m money) disable(c *Config)  { *m.micros(c) = 0 }

// moneyForm has groups for the units, the decimals and the currency.
var moneyForm = formOf(`^(0|[1-9][0-9]*)(?:\.([0-9]+))?(?: ([A-Z][A-Z0-9]{2,15}))?$`)

// ParseMoney reads an amount of money as a file has it, such as 5.00 EUR; 0 needs no currency. The error says what is
// wrong with it, and wraps [watchdog.ErrInvalid].
func ParseMoney(text string) (watchdog.Money, error) {
	v := fromText(strings.TrimSpace(text))
	micros, currency, problem := parseMoney(v)
	if problem != "" {
		return watchdog.Money{}, fmt.Errorf("%w amount of money: %s %s", watchdog.ErrInvalid, v.show, problem)
	}
	return watchdog.Money{Micros: micros, Currency: currency}, nil
}

// microDigits is how many decimals a micro-unit has.
const microDigits = 6

func parseMoney(v value) (micros int64, currency, problem string) {
	if problem := wordProblem(v); problem != "" {
		return 0, "", problem
	}
	if rest, negative := strings.CutPrefix(v.text, "-"); negative && moneyForm().MatchString(rest) {
		return 0, "", "is negative"
	}
	parts := moneyForm().FindStringSubmatch(v.text)
	if parts == nil {
		return 0, "", "is not a plain decimal number, a space and a currency in capitals"
	}
	whole, decimals, currency := parts[1], parts[2], parts[3]
	if len(decimals) > microDigits {
		return 0, "", "is finer than a millionth; write at most 6 decimals"
	}
	micros, err := strconv.ParseInt(whole+decimals+strings.Repeat("0", microDigits-len(decimals)), 10, 64)
	switch {
	case err != nil || micros == math.MaxInt64: // the largest number means no limit in Go code
		return 0, "", "is too large; at most 9223372036854 fits"
	case micros == 0:
		return 0, "", ""
	case currency == "":
		return 0, "", "has no currency; write one, such as " + v.text + " EUR"
	}
	return micros, currency, ""
}
