package storeflow

import (
	"cmp"
	"time"

	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

// A Row is a row that a search for sessions found.
type Row interface {
	// Place is the position of the session in the order of the search.
	Place() storerows.Place
	// Session reads the row. An error says why it cannot be read.
	Session() (session.Session, error)
}

// AfterOf returns the place after which a page begins. It fails if the query is not valid.
func AfterOf(after string, query interface{ Validate() error }) (storerows.Place, error) {
	last, err := storerows.ParsePlace(after)
	return last, cmp.Or(query.Validate(), err)
}

// StalledPage sorts the rows that a search found, at most one more than the limit, and makes a page of them.
func StalledPage[R Row](now time.Time, rows []R, limit int) session.Page {
	rows, next := storerows.Paginate(rows, limit, R.Place)
	return pageOf(now, rows, next)
}

// ListPage is [StalledPage] for the rows of a list, which have their order.
func ListPage[R Row](now time.Time, rows []R, limit int) session.ListPage {
	next := ""
	if len(rows) > limit {
		rows = rows[:limit]
		next = rows[limit-1].Place().String()
	}
	return session.ListPage(pageOf(now, rows, next))
}

func pageOf[R Row](now time.Time, rows []R, next string) session.Page {
	page := session.Page{Now: now, Next: next}
	for _, r := range rows {
		one, err := r.Session()
		if err != nil {
			page.Unreadable = append(page.Unreadable, err)
			continue
		}
		page.Sessions = append(page.Sessions, one)
	}
	return page
}
