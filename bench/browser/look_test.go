package browser_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The pages that are looked at.
var views = map[string]string{
	"list": "", "run": "?run=refactor-91ab", "live_run": "?run=fix-4821", "sweeper": "?view=sweeper", "error": "?run=none",
}

func TestLook(t *testing.T) {
	b := open(t, sweeper)
	b.fleet()
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for name, query := range views {
			b.size(1280, 800)
			b.show(query)
			b.until(`document.readyState === "complete"`)
			b.shot(name + "_" + scheme)
			b.size(390, 844)
			b.until(`innerWidth === 390`)
			b.shot(name + "_" + scheme + "_390")
			b.size(1280, 800)
			b.until(`innerWidth === 1280`)
			assert.Empty(t, eval[[]string](b, lowContrast), "%s, %s: texts with a contrast below 4.5", name, scheme)
			b.size(320, 640)
			b.until(`innerWidth === 320`)
			assert.LessOrEqual(t, eval[int](b, `document.documentElement.scrollWidth`), 320, "%s scrolls sideways", name)
			assert.Empty(t, eval[[]string](b, sticksOut), "%s at 320 pixels: these stick out", name)
		}
	}
}

// sticksOut are the elements that are not wholly in the window, but for those that only screen readers get.
const sticksOut = `[...document.querySelectorAll("main *, header *")].filter((e) => {
	if (e.closest(".hidden, thead, svg, option, select")) return false;
	const box = e.getBoundingClientRect();
	return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
}).map((e) => e.tagName + "." + e.className + " " + e.textContent.slice(0, 40))`

// lowContrast are the texts whose contrast with what is behind them is below 4.5, by the computed styles.
const lowContrast = `(() => {
	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const rgba = (color) => {
		canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = "rgba(0,0,0,0)"; canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
		return canvas.getImageData(0, 0, 1, 1).data;
	};
	const behind = (e) => {
		for (; e; e = e.parentElement) {
			const color = rgba(getComputedStyle(e).backgroundColor);
			if (color[3] === 255) return color;
		}
		return [255, 255, 255, 255];
	};
	const luminance = (c) => [0, 1, 2].map((i) => c[i] / 255)
		.map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const low = [];
	for (const e of document.querySelectorAll("body *")) {
		if (e.closest("option")) continue;
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
		const style = getComputedStyle(e), svg = e instanceof SVGElement;
		if (svg && !(e instanceof SVGTextContentElement)) continue;
		const text = luminance(rgba(svg ? style.fill : style.color)), back = luminance(behind(e));
		const contrast = (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
		if (contrast < 4.5) low.push(contrast.toFixed(2) + " " + e.tagName + "." + e.className + " " + e.textContent.slice(0, 40));
	}
	return low;
})()`

// TestContrastIsMeasured shows that lowContrast finds what it is for.
func TestContrastIsMeasured(t *testing.T) {
	b := open(t)
	b.show("")
	eval[bool](b, `(() => { const h = document.querySelector("h1"); h.className = "sub"; h.setAttribute("hidden", "");
		const p = document.createElement("p"); p.textContent = "pale"; p.style.color = "#999"; document.body.append(p);
		document.querySelector("main").append(p); return true; })()`)
	low := eval[[]string](b, lowContrast)
	require.Len(t, low, 1)
	require.Contains(t, low[0], "pale")
}

func TestScreenReader(t *testing.T) {
	b := open(t, sweeper)
	b.fleet()
	b.show("")
	b.until(isLive)
	heard := b.readOut()
	count := func(role, name string) (n int) {
		for _, s := range heard {
			if s.role == role && (name == "" || s.name == name) {
				n++
			}
		}
		return n
	}
	for _, landmark := range []struct{ role, name string }{
		{"banner", ""}, {"main", ""}, {"contentinfo", ""}, {"navigation", "Pages"}, {"search", "Filter runs"},
		{"heading", "Runs"}, {"status", ""}, {"group", "States"}, {"searchbox", "ID"}, {"textbox", "Host"},
		{"combobox", "Reason"}, {"combobox", "Order"}, {"checkbox", "running 5"}, {"checkbox", "stopped 3"},
		{"button", "Show"}, {"table", "Runs, the live ones first, then those that have ended"},
	} {
		assert.Equal(t, 1, count(landmark.role, landmark.name), landmark)
	}
	assert.Equal(t, 5, count("columnheader", ""))
	assert.Equal(t, 10, count("rowheader", ""))
	assert.Equal(t, 4, count("meter", "wall clock left"))
	assert.Equal(t, 1, count("meter", "cost left"), "of each run the limit nearest its end")
	meters := slices.DeleteFunc(slices.Clone(heard), func(s said) bool { return s.role != "meter" })
	assert.Len(t, meters, 5)
	for _, m := range meters {
		assert.NotEmpty(t, m.name)
		assert.NotEmpty(t, m.value)
	}
	for _, text := range eval[[]string](b, `[...document.querySelectorAll("[role=meter]")].map((e) => e.getAttribute("aria-valuetext"))`) {
		assert.Regexp(t, " left of |^(active|held), at most ", text)
	}
	for _, s := range heard {
		if slices.Contains([]string{"link", "button", "textbox", "combobox", "heading", "table", "meter", "image"}, s.role) {
			assert.NotEmpty(t, s.name, "an element without a name: %v", s)
		}
	}
	b.size(320, 640)
	heard = b.readOut()
	assert.Equal(t, 10, count("rowheader", ""), "it stays a table when it is narrow")
	b.show("?run=refactor-91ab")
	heard = b.readOut()
	images := slices.DeleteFunc(slices.Clone(heard), func(s said) bool { return s.role != "image" })
	require.Len(t, images, 1)
	assert.True(t, strings.HasPrefix(images[0].name, "Timeline of "), images)
	for _, heading := range []string{"refactor-91ab", "Timeline", "Layers", "Events"} {
		assert.Equal(t, 1, count("heading", heading), heading)
	}
}

func TestKeyboard(t *testing.T) {
	b := open(t)
	b.fleet()
	b.show("")
	b.until(isLive)
	focused := `document.activeElement.textContent.trim() || document.activeElement.name`
	var order []string
	for range 19 {
		b.do(chromedp.KeyEvent("\t"))
		order = append(order, eval[string](b, focused))
		require.NotEqual(t, "none", eval[string](b, `getComputedStyle(document.activeElement).outlineStyle`),
			"one sees where one is: %s", order)
	}
	assert.Equal(t, "Skip to the content", order[0])
	assert.Contains(t, order, "Skip to the runs")
	assert.Contains(t, order, "host")
	assert.Contains(t, order, "Show")
	assert.Contains(t, order, "fix-4821")
	b.do(chromedp.Focus(`a[href="?run=fix-4821"]`))
	b.do(chromedp.KeyEvent("\r"))
	b.until(`document.querySelector("h1.run")?.textContent === "fix-4821"`)
}

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
