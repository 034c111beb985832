package storeflow

import "github.com/seed62658d38/watchdog/session"

// CheckNotices returns the error of the first invalid notice.
func CheckNotices(notices []session.Notice) error {
	for _, n := range notices {
		if err := n.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// NoticeIDs returns the IDs of the notices.
func NoticeIDs(notices []session.Notice) []string {
	ids := make([]string, len(notices))
	for i, n := range notices {
		ids[i] = n.ID
	}
	return ids
}
