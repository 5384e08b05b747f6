package dev.penstock.spark.secrets;

import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletOutputStream;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.WriteListener;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpServletResponseWrapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;

/**
 * Cuts the values of Secrets out of the pages of Spark's web UI ({@code spark.ui.filters}), which
 * show the exceptions of data sources.
 */
public final class RedactingFilter implements Filter {
  @Override
  public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
      throws IOException, ServletException {
    if (((HttpServletRequest) request).getContextPath().startsWith("/static")) { // files of Spark's
      chain.doFilter(request, response);
      return;
    }
    var page = new Page((HttpServletResponse) response);
    chain.doFilter(request, page);
    page.send();
  }

  /** Keeps the page until it is whole. */
  private static final class Page extends HttpServletResponseWrapper {
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private PrintWriter writer;

    Page(HttpServletResponse response) {
      super(response);
    }

    @Override
    public ServletOutputStream getOutputStream() {
      return new ServletOutputStream() {
        @Override
        public void write(int value) {
          bytes.write(value);
        }

        @Override
        public void write(byte[] some, int offset, int length) {
          bytes.write(some, offset, length);
        }

        @Override
        public boolean isReady() {
          return true;
        }

        @Override
        public void setWriteListener(WriteListener listener) {
          throw new UnsupportedOperationException("the UI's pages are written at once");
        }
      };
    }

    @Override
    public PrintWriter getWriter() {
      if (writer == null) {
        writer = new PrintWriter(new OutputStreamWriter(bytes, StandardCharsets.UTF_8));
      }
      return writer;
    }

    /** The length changes. */
    @Override
    public void setContentLength(int length) {}

    @Override
    public void setContentLengthLong(long length) {}

    @Override
    public void setHeader(String name, String value) {
      if (!name.equalsIgnoreCase("Content-Length")) {
        super.setHeader(name, value);
      }
    }

    @Override
    public void flushBuffer() {}

    private static boolean isText(String type) {
      return type != null && (type.startsWith("text/") || type.startsWith("application/json"));
    }

    void send() throws IOException {
      if (writer != null) {
        writer.flush();
      }
      byte[] page = bytes.toByteArray();
      if (isText(getContentType())) {
        String text = SecretFiles.redact(bytes.toString(StandardCharsets.UTF_8));
        page = text.getBytes(StandardCharsets.UTF_8);
      }
      if (page.length > 0) { // a redirect has closed it
        getResponse().getOutputStream().write(page);
      }
    }
  }
}
