import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Collectors;

import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.ExpressionSnippet;
import jdk.jshell.JShell;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.VarSnippet;

/**
 * Runs cells of Java with JShell for launch.py: {@code Cells REQUESTS REPLIES}, two descriptors.
 *
 * <p>A request is a text: its length in 4 bytes, then UTF-8. An empty one stops the cell that runs. A reply is
 * one byte, the number of its texts, and the texts: "ok", or "ok" and the value of the last expression, or
 * "error", name, message and trace. What cells print goes to standard output and error themselves.
 */
public final class Cells {
    private static final String[] IMPORTS = {
        "java.io", "java.math", "java.net", "java.nio.file", "java.util", "java.util.concurrent",
        "java.util.function", "java.util.prefs", "java.util.regex", "java.util.stream"};

    private final JShell shell = JShell.builder().executionEngine("local").build();
    private final BlockingQueue<String> requests = new LinkedBlockingQueue<>();
    private final DataInputStream in;
    private final DataOutputStream out;
    private volatile boolean stopped;

    private Cells(String in, String out) throws IOException {
        this.in = new DataInputStream(new BufferedInputStream(new FileInputStream("/proc/self/fd/" + in)));
        this.out = new DataOutputStream(new FileOutputStream("/proc/self/fd/" + out));
        for (String name : IMPORTS) {
            shell.eval("import " + name + ".*;");
        }
    }

    public static void main(String[] args) throws Exception {
        System.setIn(InputStream.nullInputStream());
        Cells cells = new Cells(args[0], args[1]);
        Thread reader = new Thread(cells::readRequests);
        reader.setDaemon(true);
        reader.start();
        while (true) {
            cells.stopped = false;
            cells.reply(cells.run(cells.requests.take()));
        }
    }

    private void readRequests() {
        try {
            while (true) {
                byte[] text = new byte[in.readInt()];
                in.readFully(text);
                if (text.length > 0) {
                    requests.add(new String(text, "UTF-8"));
                } else {
                    stopped = true;
                    shell.stop();
                }
            }
        } catch (EOFException e) {
            System.exit(0);
        } catch (IOException e) {
            System.exit(1);
        }
    }

    private void reply(List<String> texts) throws IOException {
        System.out.flush();
        System.err.flush();
        out.writeByte(texts.size());
        for (String text : texts) {
            byte[] bytes = text.getBytes("UTF-8");
            out.writeInt(bytes.length);
            out.write(bytes);
        }
    }

    /** Runs snippet by snippet, up to the first that fails. */
    private List<String> run(String code) {
        String rest = code;
        List<String> last = List.of("ok");
        while (!rest.isBlank()) {
            SourceCodeAnalysis.CompletionInfo info = shell.sourceCodeAnalysis().analyzeCompletion(rest);
            if (info.completeness() == SourceCodeAnalysis.Completeness.EMPTY) {
                break; // a comment
            }
            boolean whole = info.source() != null && !info.source().isBlank();
            for (SnippetEvent event : shell.eval(whole ? info.source() : rest)) {
                if (event.causeSnippet() != null) {
                    continue; // an older one, which sees this one's declarations now
                }
                last = outcome(event);
                if (last.get(0).equals("error")) {
                    return last;
                }
            }
            if (stopped) {
                return error("Interrupted", "the cell was stopped", "the cell was stopped");
            }
            rest = whole ? info.remaining() : "";
        }
        return last;
    }

    private List<String> outcome(SnippetEvent event) {
        Snippet snippet = event.snippet();
        if (event.exception() instanceof EvalException) {
            EvalException e = (EvalException) event.exception();
            String message = e.getMessage() == null ? "" : e.getMessage();
            return error(e.getExceptionClassName(), message, trace(e));
        }
        if (event.status() == Snippet.Status.REJECTED) {
            String why = shell.diagnostics(snippet).filter(Diag::isError)
                .map(d -> diagnosis(snippet.source(), d)).collect(Collectors.joining("\n"));
            return error("CompilationException", why, why);
        }
        if (event.exception() != null || event.status() == Snippet.Status.RECOVERABLE_NOT_DEFINED) {
            String why = "not declared: " + shell.unresolvedDependencies(declaration(snippet))
                .collect(Collectors.joining(", "));
            return error("UnresolvedReferenceException", why, why);
        }
        String value = value(event);
        return value == null ? List.of("ok") : List.of("ok", value);
    }

    private static jdk.jshell.DeclarationSnippet declaration(Snippet snippet) {
        return snippet instanceof jdk.jshell.DeclarationSnippet
            ? (jdk.jshell.DeclarationSnippet) snippet : null;
    }

    /** The message, the line that it is about, and a mark below the place. */
    private static String diagnosis(String source, Diag d) {
        int at = (int) Math.max(0, Math.min(d.getPosition(), source.length()));
        int begin = source.lastIndexOf('\n', at - 1) + 1;
        int end = source.indexOf('\n', begin);
        String line = source.substring(begin, end < 0 ? source.length() : end);
        return d.getMessage(Locale.ROOT) + "\n" + line + "\n" + " ".repeat(at - begin) + "^";
    }

    private static String trace(EvalException e) {
        StringBuilder b = new StringBuilder();
        for (Throwable t = e; t != null; t = t.getCause()) {
            b.append(b.length() == 0 ? "" : "Caused by: ");
            b.append(t instanceof EvalException ? ((EvalException) t).getExceptionClassName() : t);
            b.append(t instanceof EvalException && t.getMessage() != null ? ": " + t.getMessage() : "");
            for (StackTraceElement frame : t.getStackTrace()) {
                if (frame.getMethodName().equals("do_it$")) {
                    break; // JShell's own from here on
                }
                b.append("\n    at ").append(frame);
            }
            b.append('\n');
        }
        return b.toString().stripTrailing();
    }

    /** Of an expression, as text; null when there is nothing to show. */
    private static String value(SnippetEvent event) {
        Snippet snippet = event.snippet();
        String type;
        if (snippet instanceof ExpressionSnippet) {
            type = ((ExpressionSnippet) snippet).typeName();
        } else if (snippet.subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND) {
            type = ((VarSnippet) snippet).typeName();
        } else {
            return null;
        }
        String value = event.value();
        if (value == null || value.isEmpty() || value.equals("null")) {
            return null;
        }
        boolean quoted = type.equals("String") && value.length() >= 2 && value.startsWith("\"");
        return quoted ? unescape(value.substring(1, value.length() - 1)) : value;
    }

    private static String unescape(String text) {
        try {
            return text.translateEscapes();
        } catch (IllegalArgumentException e) {
            return text;
        }
    }

    private static List<String> error(String name, String message, String trace) {
        return List.of("error", name, message, trace);
    }
}
