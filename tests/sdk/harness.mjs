// What the test programs of this directory share: sandboxes that are ended, waiting, result lines.
//
// E2B_API_URL, E2B_SANDBOX_URL, E2B_API_KEY: the daemon and a key; E2B_API_KEY_OTHER: another's key.
// SDK_TEST_NATIVE: sandboxes are native agents, which run as root on this machine's file system.
// SDK_TEST_ONLY: run only the tests whose name contains it.
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'

export const native = !!process.env.SDK_TEST_NATIVE
export const origin = new URL(process.env.E2B_SANDBOX_URL)
// Guests may be emulated: so much more time is given, and so much less data moved.
export const slow = native ? 1 : 10
export const burst = native ? 50 : 20 // requests at the same time

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

export async function until(what, fn, ms = 20_000 * slow) {
  for (const end = Date.now() + ms; Date.now() < end; await sleep(20)) {
    const value = await fn()
    if (value) return value
  }
  assert.fail(`${what} did not happen in ${ms} ms`)
}

export async function all(paginator) {
  const items = []
  while (paginator.hasNext) items.push(...(await paginator.nextItems()))
  return items
}

// This machine's own login files may do anything, and leave locks behind when they are killed.
export const home = native ? { HOME: '/var/empty' } : {}

const started = []
const ends = []
// What else has to be cleaned up, while the sandboxes still live.
export const atEnd = (fn) => ends.push(fn)

// A sandbox that ends with the test program, made by any version's class.
export async function create(options = {}, Class = Sandbox) {
  const sandbox = await Class.create({ timeoutMs: 600_000, ...options, envs: { ...home, ...options.envs } })
  started.push(sandbox.sandboxId)
  return sandbox
}

// A request past the SDK to a port of a sandbox, authorised as the SDK would.
export function raw(sandbox, path, { port = 49983, headers = {}, ...options } = {}) {
  return fetch(new URL(path, origin), {
    ...options,
    headers: {
      'e2b-sandbox-id': sandbox.sandboxId, 'e2b-sandbox-port': String(port),
      'x-access-token': sandbox.envdAccessToken, ...headers,
    },
  })
}

const tests = []
export const test = (name, fn) => tests.push([name, fn])
// What microVMs make no difference to, and what would take long in emulated ones.
export const testNatively = (name, fn) => native && test(name, fn)

async function runOne(area, name, fn, limitMs) {
  let timer
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end after ${limitMs} ms`)), limitMs)
  })
  try {
    const skipped = await Promise.race([fn(), limit])
    console.log(skipped ? `skip - ${area}: ${name}: ${skipped}` : `ok - ${area}: ${name}`)
    return true
  } catch (e) {
    console.log(`not ok - ${area}: ${name}\n  ${String(e?.stack ?? e).replaceAll('\n', '\n  ')}`)
    return false
  } finally {
    clearTimeout(timer)
  }
}

// Runs what test() noted and ends the process. A test that returns a text was skipped for that reason.
export async function finish(area, limitMs = 60_000 * slow) {
  const only = process.env.SDK_TEST_ONLY
  let failed = 0
  for (const [name, fn] of tests)
    if (!only || name.includes(only)) failed += !(await runOne(area, name, fn, limitMs))
  for (const end of ends) await end().catch((e) => console.log(`  cleaning up: ${e}`))
  await Promise.all(started.map((id) => Sandbox.kill(id).catch(() => {})))
  process.exit(failed ? 1 : 0)
}
