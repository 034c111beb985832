package storerows

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// An ExpiredLease is what the row of a session keeps of a lease that expired. It has the fields of the one of package
// session.
type ExpiredLease struct {
	ID        string
	Looks     int
	RenewedAt time.Time
}

// String returns what the column expired_lease has.
func (l ExpiredLease) String() string {
	return fmt.Sprintf("%d %d %s", l.Looks, l.RenewedAt.UnixMicro(), l.ID)
}

// ParseExpired reads the column expired_lease. A text of another program says nothing.
func ParseExpired(text string) (l ExpiredLease) {
	fields := strings.SplitN(text, " ", 3)
	if len(fields) < 3 {
		return l
	}
	looks, looksErr := strconv.Atoi(fields[0])
	renewed, renewedErr := strconv.ParseInt(fields[1], 10, 64)
	if looksErr != nil || renewedErr != nil {
		return l
	}
	return ExpiredLease{ID: fields[2], Looks: looks, RenewedAt: time.UnixMicro(renewed).UTC()}
}
