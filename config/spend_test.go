package config_test

import (
	"math"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
)

// TestScopesInForce expects the limits of a scope under its name, with its own sources.
func TestScopesInForce(t *testing.T) {
	c := parse(t, everySetting, nil)
	const tenant = "runtime_controls.scopes.tenant-7."
	require.Contains(t, settings(c), [3]string{"runtime_controls.scopes", "tenant-7, fleet", "limits.yaml:25"})
	require.Contains(t, settings(c), [3]string{tenant + "spend.cost", "100.00 EUR", "limits.yaml:27"})
	require.Contains(t, settings(c), [3]string{tenant + "period", "day", "limits.yaml:28"})

	t.Run("a limit that the host changed has its new value", func(t *testing.T) {
		c.Scopes[0].Spend.Cost.Micros = 1
		require.Contains(t, settings(c), [3]string{tenant + "spend.cost", "0.000001 EUR", "limits.yaml:27"})
	})
	t.Run("a scope that the host added is shown", func(t *testing.T) {
		c.Scopes = append(c.Scopes, watchdog.SharedSpend{Scope: "host", Spend: watchdog.Spend{Turns: 5}})
		require.Contains(t, settings(c), [3]string{"runtime_controls.scopes.host.spend.turns", "5", "default"})
	})
}

// FuzzMoney compares the parsing of money with exact arithmetic.
func FuzzMoney(f *testing.F) {
	for _, text := range []string{
		"0", "0 EUR", "0.000000", "5.00 EUR", "0.000001 USDC", "0.0000001 EUR", "9223372036854.775806 EUR",
		"9223372036854.775807 EUR", "5", "5 eur", "-1 EUR", "05 EUR", "1e3 EUR", "5 E",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Load("", environment(variables{costVariable: text}))
		if strings.TrimSpace(text) == "" { // not set
			require.NoError(t, err)
			return
		}
		want, ok := naiveMoney(text)
		require.Equal(t, ok, err == nil, "%q: %v", text, err)
		if ok {
			require.Equal(t, want, c.Budget.Spend.Cost, "%q", text)
		}
	})
}

var plainMoney = regexp.MustCompile(`^(?:0|[1-9][0-9]*)(?:\.[0-9]{1,6})?(?: ([A-Z][A-Z0-9]{2,15}))?$`)

func naiveMoney(text string) (watchdog.Money, bool) {
	parts := plainMoney.FindStringSubmatch(text)
	if parts == nil {
		return watchdog.Money{}, false
	}
	number, _, _ := strings.Cut(text, " ")
	exact, _ := new(big.Rat).SetString(number)
	micros := exact.Mul(exact, big.NewRat(1e6, 1)).Num()
	switch {
	case !micros.IsInt64() || micros.Int64() == math.MaxInt64:
		return watchdog.Money{}, false
	case micros.Sign() == 0:
		return watchdog.Money{}, true
	}
	return watchdog.Money{Micros: micros.Int64(), Currency: parts[1]}, parts[1] != ""
}

func TestParseMoney(t *testing.T) {
	for text, want := range map[string]watchdog.Money{
		"5 EUR": {Micros: 5_000_000, Currency: "EUR"}, " 0.000001 USD ": {Micros: 1, Currency: "USD"}, "0": {},
	} {
		got, err := config.ParseMoney(text)
		assert.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for text, says := range map[string]string{
		"": "is empty", "5": "has no currency", "-1 EUR": "is negative", "1e3 EUR": "is not a plain decimal number",
		"0.0000001 EUR": "finer than a millionth", "99999999999999 EUR": "too large",
	} {
		_, err := config.ParseMoney(text)
		assert.ErrorIs(t, err, watchdog.ErrInvalid, text)
		assert.ErrorContains(t, err, says, text)
	}
}
