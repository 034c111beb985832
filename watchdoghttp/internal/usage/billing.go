package usage

import "net/http"

// A Bill is what a call without usage was billed.
type Bill uint8

// The bills: Read says that the response's body tells; Void that nothing can have been billed; Admitted that anything
// up to the admission can.
const (
	Read Bill = iota
	Void
	Admitted
)

// Billing returns what a response of that status means. A call counts as admitted unless its API is known to bill
// nothing for the status: one that is turned away by its credentials, its size or a rate limit uses nothing anywhere.
//
//   - Azure bills prompt and answer where a content filter turns a 400 out of them, and bills 408. So for the APIs of
//     OpenAI a 400 is no proof; nor is 422, which compatible servers send after the model has answered.
//   - Google bills nothing for a 400 or a 500.
//   - Anthropic checks a request before the model begins: it turned a 400 away, and had no room for a 529.
//   - A redirect is no model's answer; the call that follows it is one of its own.
//   - A 408, a 499 and any other 5xx can come from a proxy while the model works on.
func Billing(api API, status int) Bill {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusTooManyRequests,
		http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		return Void
	case http.StatusBadRequest:
		if api == Anthropic || api == Gemini {
			return Void
		}
	case http.StatusInternalServerError:
		if api == Gemini {
			return Void
		}
	case statusOverloaded:
		if api == Anthropic {
			return Void
		}
	}
	if status >= 200 && status < 300 {
		return Read
	}
	return Admitted
}

// statusOverloaded is Anthropic's.
const statusOverloaded = 529
