// The official desktop SDK, unmodified, on the template `desktop`: the screen, the mouse, the keyboard, programs, a
// browser, and the screen as a web page.
import assert from 'node:assert/strict'
import { Sandbox } from '@e2b/desktop'
import { create, finish, raw, test, until } from './harness.mjs'

const [width, height] = [800, 600]
const desktop = await create({ resolution: [width, height], timeoutMs: 1_800_000, requestTimeoutMs: 300_000 }, Sandbox)

const titles = async () => {
  const { stdout } = await desktop.commands.run("xdotool search --onlyvisible --name '.+' getwindowname %@ || true")
  return stdout.split('\n')
}
const window = (words) => until(`a window '${words}'`, async () =>
  (await titles()).some((title) => title.includes(words)), 300_000)

test('the screen', async () => {
  assert.deepEqual(await desktop.getScreenSize(), { width, height })
  const picture = Buffer.from(await desktop.screenshot())
  assert.equal(picture.subarray(1, 4).toString(), 'PNG')
  assert.deepEqual([picture.readUInt32BE(16), picture.readUInt32BE(20)], [width, height])
})

test('the mouse', async () => {
  await desktop.moveMouse(321, 123)
  assert.deepEqual(await desktop.getCursorPosition(), { x: 321, y: 123 })
  await desktop.drag([100, 300], [200, 350])
  assert.deepEqual(await desktop.getCursorPosition(), { x: 200, y: 350 })
})

test('a program, clicks and keys', async () => {
  await desktop.commands.run('xset r off') // a slow host would repeat keys
  await desktop.launch('org.xfce.mousepad')
  await window('Mousepad')
  const [id] = await desktop.getApplicationWindows('mousepad')
  const { stdout } = await desktop.commands.run(`xdotool getwindowgeometry --shell ${id}`)
  const at = (name) => Number(stdout.match(new RegExp(`^${name}=(\\d+)$`, 'm'))[1])
  await desktop.leftClick(at('X') + Math.round(at('WIDTH') / 2), at('Y') + Math.round(at('HEIGHT') / 2))
  await desktop.write('Typed by an agent: äöü €')
  await desktop.press(['ctrl', 's'])
  await window('Save As')
  await desktop.write('/tmp/typed.txt')
  await desktop.press('enter')
  await until('the file', () => desktop.files.exists('/tmp/typed.txt'))
  assert.match(await desktop.files.read('/tmp/typed.txt'), /^Typed by an agent: äöü €\n?$/)
})

test('the screen as a web page', async () => {
  await desktop.stream.start({ requireAuth: true })
  assert.match(desktop.stream.getAuthKey(), /^\w+$/)
  const page = await raw(desktop, '/vnc.html', { port: 6080 })
  assert.equal(page.status, 200)
  assert.match(await page.text(), /noVNC/)
  await desktop.stream.stop()
})

test('a browser', async () => {
  await desktop.files.write('/tmp/page.html', '<title>A page of the test</title><h1>Here</h1>')
  await desktop.open('/tmp/page.html')
  await window('A page of the test')
})

finish('desktop')
