package config

import (
	"fmt"
)

// limitsSpend reports whether a counted limit is on.
func (c *Config) limitsSpend() bool {
	for _, path := range spendLimits {
		if k, _ := keyAt(path); !k.kind.off(c) {
			return true
		}
	}
	return false
}

// adoptWarnings leaves out warnings that were switched off where there is nothing to warn of.
func (c *Config) adoptWarnings() {
	if len(c.Budget.Spend.WarnAt) == 0 && !c.limitsSpend() {
		c.Budget.Spend.WarnAt = nil
	}
}

// otherCurrency returns why the reserve of the cost cannot be kept.
func (c *Config) otherCurrency() string {
	currency := c.Budget.Spend.Cost.Currency
	if c.Budget.Spend.Reserve.Cost == 0 || c.reserveCurrency == currency {
		return ""
	}
	return fmt.Sprintf("has another currency than its limit: %s is in %s by %s", costPath, currency, c.sources[costPath])
}
