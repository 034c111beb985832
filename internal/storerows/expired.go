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

// String returns what the column expired_lease has after the attempt of the row and a space.
func (l ExpiredLease) String() string {
	return fmt.Sprintf("%d %d %s", l.Looks, l.RenewedAt.UnixMicro(), l.ID)
}

// ParseExpired reads the column expired_lease of a row in an attempt. It is void for another attempt: programs that do
// not know the column count the attempt up. A text of another program says nothing.
func ParseExpired(text string, attempt int) (l ExpiredLease) {
	of, lease, _ := strings.Cut(text, " ")
	fields := strings.SplitN(lease, " ", 3)
	if of != strconv.Itoa(attempt) || len(fields) < 3 {
		return l
	}
	looks, looksErr := strconv.Atoi(fields[0])
	renewed, renewedErr := strconv.ParseInt(fields[1], 10, 64)
	if looksErr != nil || renewedErr != nil {
		return l
	}
	return ExpiredLease{ID: fields[2], Looks: looks, RenewedAt: time.UnixMicro(renewed).UTC()}
}
