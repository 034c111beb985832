package browser_test

import (
	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// size sets the size of the window.
func (b *tab) size(width, height int64) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// scheme has the page be light or dark.
func (b *tab) scheme(name string) {
	b.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
	require.NoError(b, err)
}

// withoutScript turns scripts off.
func (b *tab) withoutScript() {
	b.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(b, err)
}

// A said is what a screen reader is told of an element.
type said struct{ role, name, value string }

// readOut is what a screen reader is told of the page.
func (b *tab) readOut() (all []said) {
	b.Helper()
	tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	require.NoError(b, err)
	text := func(v *accessibility.Value) string {
		if v == nil {
			return ""
		}
		return trimmed(string(v.Value))
	}
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		all = append(all, said{text(n.Role), text(n.Name), text(n.Value)})
	}
	return all
}

// trimmed is a JSON string without its quotes.
func trimmed(text string) string {
	if len(text) >= 2 && text[0] == '"' {
		return text[1 : len(text)-1]
	}
	return text
}
