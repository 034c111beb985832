package probe

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// The prefixes of the hashed texts. Neither is a prefix of the other, so that a given digest and an object never hash
// the same text.
const (
	domainGiven  = "stall probe digest, given\x00"
	domainObject = "stall probe digest, of the object\x00"
)

// digestOf returns the digest of an object. The given digest is the one that the probe printed, or empty.
func digestOf(object map[string]any, given string) string {
	text := append([]byte(domainGiven), given...)
	if given == "" {
		text = appendCanonical([]byte(domainObject), object)
	}
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:])
}

// appendCanonical appends a form that is the same for equal values, and different for different values. It is not
// JSON, because JSON can spell a string or a number in several ways. Each string has its length before it, and the
// keys of each object are sorted by their bytes.
func appendCanonical(form []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(form, 'n')
	case bool:
		return append(form, strconv.FormatBool(v)[0])
	case json.Number:
		return append(append(append(form, '#'), canonicalNumber(string(v))...), ';')
	case string:
		return append(append(strconv.AppendInt(form, int64(len(v)), 10), ':'), v...)
	case []any:
		form = append(form, '[')
		for _, item := range v {
			form = appendCanonical(form, item)
		}
		return append(form, ']')
	default:
		object := value.(map[string]any)
		form = append(form, '{')
		for _, key := range slices.Sorted(maps.Keys(object)) {
			form = appendCanonical(appendCanonical(form, key), object[key])
		}
		return append(form, '}')
	}
}

// canonicalNumber returns a number as its digits without a zero at either end, times a power of ten: -12.50 becomes
// -125e-1. Zero becomes 0.
func canonicalNumber(literal string) string {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(literal), "e")
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	significant := strings.TrimRight(digits, "0")
	power := new(big.Int) // an exponent can have thousands of digits
	if exponent != "" {
		power.SetString(exponent, 10)
	}
	power.Add(power, big.NewInt(int64(len(digits)-len(significant)-len(fraction))))
	significant = strings.TrimLeft(significant, "0")
	switch {
	case significant == "":
		return "0"
	case negative:
		significant = "-" + significant
	}
	return significant + "e" + power.String()
}
