package storerows_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed62658d38/watchdog/internal/storerows"
)

func TestCheckVersion(t *testing.T) {
	for _, test := range []struct {
		name                    string
		version, oldest, newest int
		refused                 bool
	}{
		{"an older version can be used", 2, 0, 3, false},
		{"the same version can be used", 3, 3, 3, false},
		{"a newer version that says nothing is refused", 4, 0, 3, true},
		{"a newer version that this one can read is used", 9, 3, 3, false},
		{"a newer version that only a newer one can read is refused", 9, 4, 3, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := storerows.CheckVersion(test.version, test.oldest, test.newest)
			if !test.refused {
				assert.NoError(t, err)
				return
			}
			assert.ErrorIs(t, err, storerows.ErrNewerSchema)
		})
	}
}
