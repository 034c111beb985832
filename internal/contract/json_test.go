package contract_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed62658d38/watchdog/internal/contract"
)

func TestSameJSON(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[1.5e3,null]}`, ` { "b" : [1500,null], "a" : 1.0 } `, true},
		{`{"a":1}`, `{"a":"1"}`, false},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		{`{"a":null}`, `{}`, false},
		{"", "", true},
		{"", "{}", false},
		{"{", "{ ", false},
	} {
		assert.Equal(t, c.want, contract.SameJSON(json.RawMessage(c.a), json.RawMessage(c.b)), "%s and %s", c.a, c.b)
	}
}
