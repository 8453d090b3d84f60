"""What a page must be for people with a small screen, a keyboard or a screen reader; asked of the page itself."""

from playwright.sync_api import Page

# Texts whose contrast with what is behind them is below WCAG AA (4.5, or 3 for large ones).
_TOO_FAINT = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parsed = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((n) => top[n] * top[3] + below[n] * (1 - top[3])).concat(1);
  const behind = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement)
      layers.push(parsed(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = (color) => color.slice(0, 3).map((c) => linear(c / 255))
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const found = [];
  const texts = document.createTreeWalker(document.querySelector("#page") || document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.textContent.trim(), element = texts.currentNode.parentElement;
    const style = getComputedStyle(element), box = element.getBoundingClientRect();
    const isNoText = element.closest(".ob-hidden, .material-symbols-outlined, option, script, style, template");
    const isSeen = box.width && box.height && style.visibility !== "hidden";
    if (!text || isNoText || !isSeen || element.closest("[disabled]")) continue;
    const ground = behind(element), ink = over(parsed(style.color), ground);
    const [high, low] = [light(ink), light(ground)].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize), isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 600);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < (isLarge ? 3 : 4.5)) found.push(`${text.slice(0, 40)} (${ratio.toFixed(2)})`);
  }
  return [...new Set(found)];
}
"""
# What one can type into, choose from or press, and that nobody who cannot see it could name.
_NAMELESS = """
() => ["input:not([type=hidden])", "select", "textarea", "button", "a[href]", "img"]
  .flatMap((kind) => [...document.querySelectorAll(`#main ${kind}`)])
  .filter((each) => each.offsetParent !== null)
  .filter((each) => {
    if (each.matches("img")) return !each.hasAttribute("alt");
    const said = ["aria-label", "title", "data-tip"].some((name) => each.getAttribute(name));
    const label = each.labels?.length || said;
    return !label && !(each.matches("button, a") && each.textContent.trim());
  })
  .map((each) => each.outerHTML.slice(0, 120))
"""
_HEADINGS = "() => document.querySelectorAll('h1').length"
# Bars below what is no wider than its frame: measured before the page had its fonts and times.
_NEEDLESS_BARS = """
async () => {
  await document.fonts.ready;
  return [...document.querySelectorAll(".simplebar-horizontal")]
    .filter((bar) => getComputedStyle(bar).visibility === "visible")
    .map((bar) => bar.parentElement.querySelector(".simplebar-content"))
    .filter((content) => content.scrollWidth <= content.offsetWidth).length;
}
"""
_WIDTH = "() => document.documentElement.scrollWidth"


def problems(page: Page) -> list[str]:
    """All of them, in words; none on a page that is as it should be."""
    found = [f"too faint: {text}" for text in page.evaluate(_TOO_FAINT)]
    found += [f"without a name: {element}" for element in page.evaluate(_NAMELESS)]
    width, viewport = page.evaluate(_WIDTH), page.viewport_size
    assert viewport is not None
    if width > viewport["width"]:
        found.append(f"{width} wide on a screen of {viewport['width']}")
    if page.evaluate(_NEEDLESS_BARS):
        found.append("a bar to scroll by, and nothing to scroll to")
    if page.evaluate(_HEADINGS) != 1:
        found.append(f"{page.evaluate(_HEADINGS)} main headings")
    return found
