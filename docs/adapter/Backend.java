// A bank's back end in front of the scheme adapter. Usage: java Backend.java PORT
import com.sun.net.httpserver.HttpServer;
import java.math.BigDecimal;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;

class Backend {
    static final Map<String, BigDecimal> BALANCES = new ConcurrentHashMap<>(Map.of("222", BigDecimal.ZERO));
    static final Map<String, String> CREDITED = new ConcurrentHashMap<>(); // by transferId

    // A real back end uses a JSON library; the JDK has none. The first member with this name counts.
    static String member(String json, String name) {
        var found = Pattern.compile("\"" + name + "\":\"([^\"]*)\"").matcher(json);
        return found.find() ? found.group(1) : "";
    }

    static String[] respond(String method, String path, String body) {
        if (method.equals("GET") && path.equals("/parties/MSISDN/222"))
            return new String[] {"200", "{\"idType\":\"MSISDN\",\"idValue\":\"222\","
                + "\"displayName\":\"Neema Ali\",\"firstName\":\"Neema\",\"lastName\":\"Ali\"}"};
        if (method.equals("POST") && path.equals("/quoterequests")) // the bank charges nothing
            return new String[] {"200", """
                {"quoteId":"%s","transactionId":"%s","transferAmount":"%s","transferAmountCurrency":"%s"}
                """.formatted(member(body, "quoteId"), member(body, "transactionId"),
                              member(body, "amount"), member(body, "currency"))};
        if (method.equals("POST") && path.equals("/transfers")) {
            var answer = CREDITED.computeIfAbsent(member(body, "transferId"), id -> { // it may come again
                BALANCES.merge("222", new BigDecimal(member(body, "amount")), BigDecimal::add);
                return "{\"homeTransactionId\":\"credit-" + CREDITED.size() + "\"}";
            });
            return new String[] {"200", answer};
        }
        if (method.equals("PUT")) { // the final notice: reverse the credit of an aborted transfer
            var isAborted = member(body, "currentState").equals("ABORTED");
            if (isAborted && CREDITED.remove(path.substring("/transfers/".length())) != null)
                BALANCES.merge("222", new BigDecimal(member(body, "amount")), BigDecimal::subtract);
            return new String[] {"200", "{}"};
        }
        return new String[] {"404", "{\"statusCode\":\"3204\",\"message\":\"Not found\"}"};
    }

    public static void main(String[] arguments) throws Exception {
        var port = Integer.parseInt(arguments[0]);
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", exchange -> {
            var body = new String(exchange.getRequestBody().readAllBytes());
            var answer = respond(exchange.getRequestMethod(), exchange.getRequestURI().getPath(), body);
            var text = answer[1].getBytes();
            exchange.getResponseHeaders().add("content-type", "application/json");
            exchange.sendResponseHeaders(Integer.parseInt(answer[0]), text.length);
            exchange.getResponseBody().write(text);
            exchange.close();
        });
        server.start();
        System.out.println("ready on " + server.getAddress().getPort());
    }
}
