package config_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
)

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
